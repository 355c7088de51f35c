// lr_schedule.h - the learning rate as a function of the step, or of the used time budget.
// SPDX-License-Identifier: Apache-2.0
//
//   const LrScheduleOptions schedule = {.kind = LrScheduleOptions::Kind::kCosine,
//                                       .base = 1e-3,
//                                       .warmup_steps = 100,
//                                       .total_steps = 1000};
//   const double rate = LearningRate(schedule, /*step=*/500, /*budget_used=*/0.0);
#ifndef DTRAIN_OPTIM_LR_SCHEDULE_H_
#define DTRAIN_OPTIM_LR_SCHEDULE_H_

#include <cstdint>

namespace dtrain {

// A schedule with its warm-up. s is the number of the update, from 0.
struct LrScheduleOptions {
  // The form of the schedule.
  enum class Kind {
    kConstant,     // base after the warm-up
    kTransformer,  // base * hidden^-0.5 * min((s+1)^-0.5, (s+1) warmup^-1.5): Vaswani et al., eq. 3
    kInverseSqrt,  // base * sqrt(warmup / (s+1)) after a linear warm-up to base; warmup is at least
                   // 1 update
    kLinear,       // linear to `minimum` at total_steps
    kCosine,       // half a cosine to `minimum` at total_steps (Loshchilov and Hutter 2017, eq. 5)
    kPolynomial,   // (1 - progress)^power to `minimum` at total_steps
    // base * (1 - (s+1) / total_steps)^power after the warm-up. Its progress counts from step 0, so
    // the rate drops at the end of the warm-up. Google's BERT uses power 1 (its s begins at -1,
    // with a rate of 0), NVIDIA's LAMB recipe 0.5.
    kPolynomialTotal,
    // base after the warm-up, and in the last decay_steps updates
    // minimum + (base - minimum) * (1 - sqrt(progress)) down to `minimum` at total_steps (Hägele et
    // al., "Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations", 2024).
    kWarmupStableDecay,
    kLinearBudget  // linear to `minimum` at the end of the time budget
  };
  Kind kind = Kind::kConstant;
  double base = 1e-3;
  int64_t warmup_steps = 0;  // required for kTransformer and kInverseSqrt, optional for others
  int64_t total_steps = 0;   // for kLinear, kCosine, kPolynomial, kPolynomialTotal,
                             // kWarmupStableDecay
  int64_t decay_steps = 0;   // for kWarmupStableDecay
  double minimum = 0.0;
  double power = 1.0;       // for kPolynomial, kPolynomialTotal
  int64_t hidden_size = 0;  // for kTransformer
};

// True if the rate reaches its minimum at total_steps and stays there.
bool FallsToAnEnd(LrScheduleOptions::Kind kind);

// Throws CheckError if an option that the schedule requires is missing: total_steps for schedules
// with an end, warmup_steps for kTransformer and kInverseSqrt, hidden_size for kTransformer,
// decay_steps for kWarmupStableDecay.
// total_steps may be less than warmup_steps: the rate then rises until the end of the run, which is
// useful to try a recipe for some updates.
void CheckSchedule(const LrScheduleOptions& options);

// The learning rate of update `step`, counted from 0. `budget_used` in [0, 1] is the used part of
// the run's time budget; only kLinearBudget reads it. Throws CheckError like CheckSchedule().
double LearningRate(const LrScheduleOptions& options, int64_t step, double budget_used);

}  // namespace dtrain

#endif  // DTRAIN_OPTIM_LR_SCHEDULE_H_
