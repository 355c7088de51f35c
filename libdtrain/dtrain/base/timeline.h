// timeline.h - records what a rank's threads did and when, as spans in a ring buffer in memory.
// SPDX-License-Identifier: Apache-2.0
//
//   Timeline timeline;
//   timeline.set_on(true);
//   { const Timeline::Span span(timeline, "forward", kComputeLane); }
//   for (const TimelineSpan& span : timeline.Take()) std::printf("%s\n", span.name.data());
//
// If the timeline is off, a span costs one comparison. If it is on, a span costs two clock
// readings, a lock that is rarely contended, and a write to memory. Any thread may add and take
// spans.
#ifndef DTRAIN_BASE_TIMELINE_H_
#define DTRAIN_BASE_TIMELINE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace dtrain {

// A lane is one row of the timeline. Unless noted, spans of one lane are nested or disjoint.
enum TimelineLane : int {
  kComputeLane = 1,        // updates and their phases
  kEvaluationLane = 2,     // evaluations and checkpoints
  kCommunicationLane = 3,  // exchanges between ranks; spans may overlap
  kTensorLane = 1000       // named tensors, from submission to result; spans may overlap
};

// A stretch of time, and the work of a thread in it.
struct TimelineSpan {
  std::array<char, 64> name{};  // ends with a zero byte
  int lane = 0;                 // a TimelineLane
  int64_t begin = 0;            // nanoseconds of Timeline::Now()
  int64_t end = 0;
  int64_t index = -1;  // number of the update or micro-batch, or -1
  int64_t bytes = -1;  // bytes moved, or -1
};

// The spans of one rank. The oldest are overwritten when the buffer is full.
class Timeline {
 public:
  // Nanoseconds on a monotonic clock that all processes of a host share.
  static int64_t Now();

  // Keeps the last `capacity` spans that were not taken yet.
  explicit Timeline(size_t capacity = size_t{1} << 14) : capacity_(capacity) {}

  bool is_on() const { return on_; }
  // Allocates the memory when it is first turned on. Turning it off keeps the recorded spans.
  void set_on(bool on);

  // Adds a span under `name`, which is cut to fit. Does nothing if the timeline is off.
  void Add(std::string_view name, const TimelineSpan& span);
  // Removes and returns the spans added since the last call, in the order in which they ended.
  std::vector<TimelineSpan> Take();
  size_t size() const;
  size_t capacity() const { return capacity_; }
  // Number of spans that were overwritten before they were taken.
  int64_t lost() const;

  // Adds one span that lasts from its construction to its destruction.
  class Span {
   public:
    Span(Timeline& timeline, std::string_view name, int lane, int64_t index = -1,
         int64_t bytes = -1)
        : timeline_(timeline.is_on() ? &timeline : nullptr),
          name_(name),
          lane_(lane),
          index_(index),
          bytes_(bytes),
          begin_(timeline_ == nullptr ? 0 : Now()) {}
    ~Span() {
      if (timeline_ == nullptr) return;
      timeline_->Add(
          name_, {.lane = lane_, .begin = begin_, .end = Now(), .index = index_, .bytes = bytes_});
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Timeline* timeline_;
    std::string_view name_;
    int lane_;
    int64_t index_;
    int64_t bytes_;
    int64_t begin_;
  };

 private:
  const size_t capacity_;
  std::atomic<bool> on_ = false;
  mutable std::mutex mutex_;  // guards the members below
  std::vector<TimelineSpan> ring_;
  size_t first_ = 0;
  size_t size_ = 0;
  int64_t lost_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_BASE_TIMELINE_H_
