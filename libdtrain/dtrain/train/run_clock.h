// run_clock.h - the training time of a run, without its evaluations.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_RUN_CLOCK_H_
#define DTRAIN_TRAIN_RUN_CLOCK_H_

#include "dtrain/base/timer.h"

namespace dtrain {

class RunClock {
 public:
  // Starts with the training time that earlier processes of this run have spent.
  void Start(double seconds) {
    timer_.Restart();
    offset_ = seconds;
  }
  double Seconds() const { return offset_ + timer_.Seconds(); }

  // While it exists, the time that passes does not count as training.
  class Pause {
   public:
    explicit Pause(RunClock& clock) : clock_(clock), started_(clock.Seconds()) {}
    ~Pause() { clock_.offset_ -= Seconds(); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

    double Seconds() const { return clock_.Seconds() - started_; }

   private:
    RunClock& clock_;
    double started_;
  };

 private:
  Timer timer_;
  double offset_ = 0.0;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_RUN_CLOCK_H_
