// timer.h - measures elapsed seconds on a monotonic clock.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_TIMER_H_
#define DTRAIN_BASE_TIMER_H_

#include <chrono>

namespace dtrain {

// Seconds since construction or the last Restart().
class Timer {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  // Returns the seconds until now and starts again from zero.
  double Restart() {
    const double seconds = Seconds();
    start_ = std::chrono::steady_clock::now();
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace dtrain

#endif  // DTRAIN_BASE_TIMER_H_
