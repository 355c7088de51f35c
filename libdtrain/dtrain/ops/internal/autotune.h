// autotune.h - times several ways to compute the same result on a GPU and selects the fastest.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_AUTOTUNE_H_
#define DTRAIN_OPS_INTERNAL_AUTOTUNE_H_

#include <cstddef>
#include <functional>
#include <optional>

#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/stream.h"

namespace dtrain {

// Selects the fastest of `count` ways by the medians of two series of rounds. In each round all
// ways take turns, in a random order, so that a GPU that slows down affects all of them. Slow ways
// leave early; the others' times are the larger of their two medians. seconds_of(i) runs way i and
// returns its time, or nullopt if it cannot run, which excludes it. A later way wins only if it is
// faster by more than 1 %. Returns nullopt if no way runs.
struct FastestChoice {
  size_t index = 0;
  double seconds = 0.0;
};
std::optional<FastestChoice> ChooseFastest(
    size_t count, const std::function<std::optional<double>(size_t)>& seconds_of);

// Number of launches between two events. The time of a single short kernel would include its
// launch.
inline constexpr int kTimedLaunches = 5;

// Two events in a stream and the time between them.
class StreamTimer {
 public:
  explicit StreamTimer(Stream& stream)
      : stream_(stream),
        start_(cuda::CreateEvent(stream.device())),
        end_(cuda::CreateEvent(stream.device())) {}
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;
  ~StreamTimer() {
    cuda::DestroyEvent(stream_.device(), start_);
    cuda::DestroyEvent(stream_.device(), end_);
  }

  // Runs `work` several times and returns the seconds of one run, or nullopt if `work` returned
  // false.
  template <typename Work>
  std::optional<double> Time(const Work& work) {
    cuda::RecordEvent(stream_.device(), start_, stream_.handle());
    for (int i = 0; i < kTimedLaunches; ++i) {
      if (!work()) return std::nullopt;
    }
    cuda::RecordEvent(stream_.device(), end_, stream_.handle());
    return cuda::SecondsBetween(stream_.device(), start_, end_) / kTimedLaunches;
  }

 private:
  Stream& stream_;
  void* start_;
  void* end_;
};

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_AUTOTUNE_H_
