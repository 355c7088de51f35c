// task.h - answering questions as a training task: windows, BERT, exact matches and F1.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_TASK_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_TASK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/data/batch_walk.h"
#include "dtrain/tasks/question_answering/head.h"
#include "dtrain/tasks/question_answering/window_scores.h"
#include "dtrain/tasks/shared/walked_task.h"

namespace dtrain {

struct SquadTaskOptions {
  std::vector<std::string> train;
  std::vector<std::string> dev = {};  // perhaps none: no evaluations
  SquadWindowOptions windows = {};
  SquadAnswerOptions answers = {};
  BertOptions model = {};              // a vocab_size of 0 is that of the vocabulary
  BatchOptions batch = {};             // of an update over all ranks; its samples are windows
  int64_t micro_batch_tokens = 16384;  // a rank's share is cut into micro-batches of at most this
  Device device = {};                  // where the model lives
  DType compute_type = DType::kFloat32;
  uint64_t seed = 1;                  // of the weights' first values
  int64_t eval_batch_tokens = 8192;   // evaluated at once, on a rank
  std::vector<NamedFile> files = {};  // travel in checkpoints: configuration, vocabulary
};

// The contents of answers.txt in a checkpoint.
std::string AnswersText(bool allow_none);

class SquadTask final : public WalkedTask<BertQuestionAnswering, SpanBatch, SpanInputs> {
 public:
  // Reads the questions, on each rank, and initialises the model. The communicator outlives the
  // task. DataError: a file that cannot be used, or fewer windows than ranks. UsageError: options
  // that do not fit the data.
  static StatusOr<std::unique_ptr<SquadTask>> Create(const SquadTaskOptions& options,
                                                     const TextTokenizer& tokenizer,
                                                     Communicator& comm);

  double losses_per_update() const override;  // windows
  std::string GraphKey() const override { return GraphKeyOf(inputs().text.sequences); }
  Evaluation evaluation() override {
    return {.dev = [this](Context& ctx) { return Evaluate(ctx); }};
  }
  Identity identity() const override {
    return IdentityOf(TrainingData(), Measured(), ModelTextOf(options_.model));
  }
  CheckpointContents checkpoint() const override { return ContentsOf(CheckpointFiles()); }

  // The metrics of the dev set (tasks/question_answering/window_scores.h); none without one.
  StatusOr<EvaluationResult> Evaluate(Context& ctx);
  // options.files; answers.txt: whether questions may have no answer, AnswersText().
  std::vector<NamedFile> CheckpointFiles() const;

  const SquadRows& train() const { return train_; }
  const SquadRows* dev() const { return dev_ ? &*dev_ : nullptr; }
  // Whether questions may have no answer: some of the training or the dev set has none.
  const SquadAnswerOptions& answers() const { return options_.answers; }
  // Tokens of the windows that are trained on.
  std::span<const int32_t> lengths() const { return lengths_; }

 private:
  std::string TrainingData() const;
  std::string Measured() const;
  SquadTask(const SquadTaskOptions& options, SquadRows train, uint64_t vocabulary,
            Communicator& comm);
  SpanBatch Pack(std::span<const uint32_t> samples) const override;
  int64_t LossesOf(uint32_t /*sample*/) const override { return 1; }

  SquadTaskOptions options_;
  SquadRows train_;
  std::optional<SquadRows> dev_;
  uint64_t vocabulary_;            // its hash
  std::vector<uint32_t> trained_;  // windows that have a label
  std::vector<int32_t> lengths_;   // their tokens
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_TASK_H_
