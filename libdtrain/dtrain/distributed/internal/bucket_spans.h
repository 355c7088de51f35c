// bucket_spans.h - records each bucket's exchange in a timeline, from its start to its landing.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_BUCKET_SPANS_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_BUCKET_SPANS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "dtrain/base/timeline.h"
#include "dtrain/distributed/internal/bucket_exchange.h"

namespace dtrain::internal {

// Does nothing while there is no timeline, or while it is off.
class BucketSpans {
 public:
  explicit BucketSpans(int buckets) : spans_(static_cast<size_t>(buckets)) {}

  // May be null; outlives this object.
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }
  void NoteStart(int bucket, const BucketExchange& exchange) {
    if (!IsOn()) return;
    spans_[static_cast<size_t>(bucket)] = {
        .lane = kCommunicationLane, .begin = Timeline::Now(), .bytes = exchange.BytesOf(bucket)};
  }
  // Looks which of the first `started` buckets have arrived.
  void NoteArrivals(int started, BucketExchange& exchange) {
    if (!IsOn()) return;
    for (int i = 0; i < started; ++i) {
      TimelineSpan& span = spans_[static_cast<size_t>(i)];
      if (span.end == 0 && exchange.HasArrived(i)) span.end = Timeline::Now();
    }
  }
  void NoteLanding(int bucket) {
    if (!IsOn()) return;
    TimelineSpan& span = spans_[static_cast<size_t>(bucket)];
    if (span.end == 0) span.end = Timeline::Now();
    timeline_->Add("bucket " + std::to_string(bucket), span);
  }

 private:
  bool IsOn() const { return timeline_ != nullptr && timeline_->is_on(); }

  Timeline* timeline_ = nullptr;
  std::vector<TimelineSpan> spans_;  // by bucket
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_BUCKET_SPANS_H_
