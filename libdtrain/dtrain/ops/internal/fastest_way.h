// fastest_way.h - times ways to compute the same on a GPU and takes the fastest, by medians.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_FASTEST_WAY_H_
#define DTRAIN_OPS_INTERNAL_FASTEST_WAY_H_

#include <cstddef>
#include <functional>
#include <optional>

#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/stream.h"

namespace dtrain {

// Of `count` ways the fastest by the median of several rounds, in which all take turns, so that a
// GPU that slows down slows all. `seconds_of(i)` runs way i; none where it cannot run, which drops
// it. An earlier way wins unless a later one is faster by more than 2 %. None where none runs.
struct FastestWay {
  size_t index = 0;
  double seconds = 0.0;
};
std::optional<FastestWay> ChooseFastest(
    size_t count, const std::function<std::optional<double>(size_t)>& seconds_of);

// Launches between two events: a short kernel alone would be timed with its launch.
inline constexpr int kTimedLaunches = 5;

// Two points in a stream's work and the time between them.
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

  // Seconds of one of several runs of `work`; none where it gave false.
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

#endif  // DTRAIN_OPS_INTERNAL_FASTEST_WAY_H_
