// timeline.cc - the ring buffer of spans.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/timeline.h"

#include <algorithm>
#include <chrono>

namespace dtrain {

int64_t Timeline::Now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Timeline::set_on(bool on) {
  const std::lock_guard lock(mutex_);
  if (on) ring_.resize(capacity_);
  on_ = on;
}

size_t Timeline::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

int64_t Timeline::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void Timeline::Add(std::string_view name, const TimelineSpan& span) {
  if (!on_) return;
  const std::lock_guard lock(mutex_);
  if (!on_) return;
  TimelineSpan& slot = ring_[(first_ + size_) % capacity_];
  if (size_ < capacity_) {
    ++size_;
  } else {
    first_ = (first_ + 1) % capacity_;
    ++lost_;
  }
  slot = span;
  slot.name = {};
  std::copy_n(name.begin(), std::min(name.size(), slot.name.size() - 1), slot.name.begin());
}

std::vector<TimelineSpan> Timeline::Take() {
  std::vector<TimelineSpan> spans;
  spans.reserve(size());  // reserved before locking: allocating takes long
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < size_; ++i) spans.push_back(ring_[(first_ + i) % capacity_]);
  first_ = size_ = 0;
  return spans;
}

}  // namespace dtrain
