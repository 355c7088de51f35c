// train_observer.h - what a trainer reports while it runs: updates, evaluations and events.
// SPDX-License-Identifier: Apache-2.0
//
//   struct PrintLoss final : TrainObserver {
//     void OnStep(const StepRecord& record) override { std::printf("%f\n", record.loss); }
//   };
//   PrintLoss printer;
//   trainer.set_observer(&printer);
#ifndef DTRAIN_TRAIN_TRAIN_OBSERVER_H_
#define DTRAIN_TRAIN_TRAIN_OBSERVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/train/step_timeline.h"
#include "dtrain/train/task.h"

namespace dtrain {

// Norms of the parameters of a part of the model in one update.
struct GroupNorms {
  std::string group = {};     // "model.encoder.layers.0.attention"
  double gradient = 0.0;      // of the mean gradient, before clipping
  double weight = 0.0;        // before the update
  double update_share = 0.0;  // the norm of the weights' change, divided by `weight`
};

// One logged update. Losses, rates and times are means over the updates since the last record.
struct StepRecord {
  int64_t step = 0;       // updates so far
  int64_t max_steps = 0;  // planned length of the run in updates; 0 if unknown
  double epoch = 0.0;
  double loss = 0.0;  // per target token, over all ranks
  double nll = 0.0;
  double learning_rate = 0.0;
  double gradient_norm = 0.0;  // norm of the mean gradient, before clipping
  int64_t skipped = 0;         // updates skipped so far because a gradient was infinite or NaN
  int64_t target_tokens = 0;   // so far, all ranks
  double step_seconds = 0.0;
  double data_share = 0.0;                // share of the step time spent loading data, this rank
  double comm_share = 0.0;                // share spent waiting for gradients after backward
  double target_tokens_per_second = 0.0;  // all ranks
  double source_tokens_per_second = 0.0;
  double seconds = 0.0;       // training time so far
  double max_seconds = 0.0;   // training time at which the run ends; 0 is no limit
  double eta_seconds = -1.0;  // to the end of the run; negative if unknown
  int64_t updates = 0;        // since the last record
  // Time of each rank since the last record. Some belongs to no phase.
  std::vector<PhaseSeconds> phases = {};
  // Norms in this update, in one record of ten with TrainerOptions::details, on the root; else
  // empty.
  std::vector<GroupNorms> norms = {};
};

struct EvaluationRecord {
  int64_t step = 0;
  const EvaluationResult* result = nullptr;
  bool is_best = false;
  // True for a best that is more than nothing: the first evaluations of a run may have a BLEU of 0.
  bool is_news = false;
  // True if a finished run was restarted and this evaluation had already been reported.
  bool is_repeated = false;
};

// Receives the reports on every rank. By default it ignores them.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void OnStep(const StepRecord& /*record*/) {}
  virtual void OnEvaluation(const EvaluationRecord& /*record*/) {}
  // kind: "checkpoint", "memory", "resume", "skip", "stop", "best", "timeline", "local updates".
  // text: one sentence.
  virtual void OnEvent(int64_t /*step*/, const std::string& /*kind*/, const std::string& /*text*/) {
  }
  // The root is about to write a checkpoint of the last reported update. A run that resumes from
  // it does not repeat earlier reports, so buffered ones must be on disk now.
  virtual void BeforeCheckpoint() {}
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_TRAIN_OBSERVER_H_
