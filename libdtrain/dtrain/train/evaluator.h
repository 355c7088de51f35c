// evaluator.h - evaluates a run on its dev set, and decides what is the best and when to stop.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_EVALUATOR_H_
#define DTRAIN_TRAIN_EVALUATOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/period.h"
#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/distributed/gradient_strategy.h"
#include "dtrain/nn/context.h"
#include "dtrain/train/best_tracker.h"
#include "dtrain/train/early_stop.h"
#include "dtrain/train/metric_warnings.h"
#include "dtrain/train/run_clock.h"
#include "dtrain/train/step_timeline.h"
#include "dtrain/train/task.h"
#include "dtrain/train/train_observer.h"
#include "dtrain/train/train_state.h"
#include "dtrain/train/trainer_options.h"

namespace dtrain {

class Evaluator {
 public:
  // All references outlive this.
  Evaluator(TrainingTask& task, Communicator& comm, Context& ctx, StepTimeline& timeline,
            const TrainerOptions& options);

  // An evaluation is due if one of options.eval_every lies in (before, now]. It stays due until
  // Run().
  void MarkDue(const PeriodClock& before, const PeriodClock& now);
  bool is_due() const { return is_due_; }
  // Evaluates the weights of update `step`, or their average if the optimizer keeps one. Reports
  // the result. may_be_best: false keeps an evaluation of doubtful weights from becoming the best.
  // InternalError if the ranks get different metrics. Collective.
  Status Run(int64_t step, bool may_be_best, GradientStrategy& strategy, RunClock& clock,
             TrainObserver& observer);
  // Evaluates on the test set; a result without metrics if there is none. Collective.
  StatusOr<EvaluationResult> RunTest(int64_t step, GradientStrategy& strategy);

  const std::optional<EvaluationResult>& last() const { return last_; }
  // Whether this process, or any process of the run, evaluated the weights of `step`.
  bool HasRunHere(int64_t step) const { return last_step_ == step; }
  bool HasRun(int64_t step) const { return evaluated_step_ == step; }
  // Whether the last evaluation here shows that the weights are finite, or that they are not.
  bool ShowsFiniteWeights() const;
  bool ShowsBrokenLoss() const;

  const BestTracker& best() const { return best_; }
  bool StopsEarly() const { return early_stop_.is_reached(); }

  void Save(TrainState& state) const;
  void Restore(const TrainState& state);
  // Prepares the state of a checkpoint, on the root, for this run: one of its own (`is_own`)
  // continues with the best evaluation and early stopping, unless their metrics, the dev set or the
  // way it is measured have changed. Reports what is forgotten.
  void Adopt(bool is_own, TrainObserver& observer, TrainState& state) const;

 private:
  // Adds the losses of the training sample, if the task has one.
  Status AddSample(EvaluationResult& result) const;
  // How the best checkpoint and early stopping use their metrics.
  std::vector<SteeringMetric> SteeringMetrics() const;
  std::string DescribeDirections() const;

  const Evaluation evaluation_;
  const std::string measured_;  // Identity::evaluation
  Communicator& comm_;
  Context& ctx_;
  StepTimeline& timeline_;
  const TrainerOptions& options_;
  BestTracker best_;
  EarlyStop early_stop_;
  MetricWarnings warnings_;
  std::optional<EvaluationResult> last_;
  int64_t last_step_ = -1;       // of last_
  int64_t evaluated_step_ = -1;  // of the run's last evaluation
  bool is_due_ = false;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_EVALUATOR_H_
