// timeline.h - what a rank's threads did when: spans of time in a ring in memory.
// SPDX-License-Identifier: Apache-2.0
//
//   { const Timeline::Span span(timeline, "forward", kComputeLane); Forward(); }
//   for (const TimelineSpan& span : timeline.Take()) ...
//
// Off, a span costs a comparison; on, two readings of the clock, a lock that is free but where
// threads meet, and a write to memory. Any thread may write and take.
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

// Spans of one lane lie inside each other or apart, unless told.
enum TimelineLane : int {
  kComputeLane = 1,        // updates and their phases
  kEvaluationLane = 2,     // and checkpoints
  kCommunicationLane = 3,  // exchanges: may overlap
  kTensorLane = 1000       // named tensors, from submission to result: may overlap
};

struct TimelineSpan {
  std::array<char, 64> name{};  // ends in a zero
  int lane = 0;                 // a TimelineLane
  int64_t begin = 0;            // nanoseconds of Timeline::Now()
  int64_t end = 0;
  int64_t index = -1;  // of the update or micro-batch; -1: none
  int64_t bytes = -1;  // moved; -1: none
};

class Timeline {
 public:
  // Nanoseconds on a clock that never goes back; the same for all processes of a host.
  static int64_t Now();

  // Keeps the last `capacity` spans that were not taken.
  explicit Timeline(size_t capacity = size_t{1} << 14) : capacity_(capacity) {}

  bool is_on() const { return on_; }
  // Takes its memory when it is first turned on. Off, it keeps what it has.
  void set_on(bool on);

  // A longer name is cut. Nothing where the timeline is off.
  void Add(std::string_view name, const TimelineSpan& span);
  // The spans since the last call, in the order in which they ended.
  std::vector<TimelineSpan> Take();
  size_t size() const;
  size_t capacity() const { return capacity_; }
  // Spans that were overwritten before anyone took them.
  int64_t lost() const;

  // From construction to destruction.
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
  mutable std::mutex mutex_;  // of what follows
  std::vector<TimelineSpan> ring_;
  size_t first_ = 0;
  size_t size_ = 0;
  int64_t lost_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_BASE_TIMELINE_H_
