// lr_schedule.h - the learning rate as a function of the step, or of the share of a time budget.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPTIM_LR_SCHEDULE_H_
#define DTRAIN_OPTIM_LR_SCHEDULE_H_

#include <cstdint>

namespace dtrain {

struct LrScheduleOptions {
  enum class Kind {
    kConstant,     // base after the warm-up
    kTransformer,  // base * hidden^-0.5 * min((s+1)^-0.5, (s+1) warmup^-1.5): Vaswani et al., eq. 3
    kInverseSqrt,  // base * sqrt(warmup / (s+1)) after a linear warm-up to base, of 1 update or
                   // more
    kLinear,       // linear to `minimum` at total_steps
    kCosine,       // half a cosine to `minimum` at total_steps (Loshchilov and Hutter 2017, eq. 5)
    kPolynomial,   // (1 - progress)^power to `minimum` at total_steps
    // base * (1 - (s+1) / total_steps)^power from the warm-up's end on, which does not count apart:
    // the rate drops there. Google's BERT with power 1 (its s begins at -1, with a rate of 0),
    // NVIDIA's LAMB recipe with 0.5.
    kPolynomialTotal,
    kLinearBudget  // linear to `minimum` at the end of the time budget
  };
  Kind kind = Kind::kConstant;
  double base = 1e-3;
  int64_t warmup_steps = 0;  // kTransformer and kInverseSqrt need one; others may have none
  int64_t total_steps = 0;   // of kLinear, kCosine, kPolynomial, kPolynomialTotal
  double minimum = 0.0;
  double power = 1.0;       // of kPolynomial, kPolynomialTotal
  int64_t hidden_size = 0;  // of kTransformer
};

// Whether the rate is at its least from total_steps on.
bool FallsToAnEnd(LrScheduleOptions::Kind kind);

// CheckError where a schedule lacks what it is made of: total_steps of those with an end (in a run
// shorter than its warm-up the rate rises to the end: a recipe tried for some updates);
// warmup_steps of kTransformer and kInverseSqrt; hidden_size of kTransformer.
void CheckSchedule(const LrScheduleOptions& options);

// The learning rate of 0-based update `step`. `budget_used` in [0, 1]: the share of the run's time
// budget that has passed, read by kLinearBudget only. CheckError as CheckSchedule().
double LearningRate(const LrScheduleOptions& options, int64_t step, double budget_used);

}  // namespace dtrain

#endif  // DTRAIN_OPTIM_LR_SCHEDULE_H_
