// task.h - BERT's pre-training as a training task: documents, masks, guesses.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_TASK_H_
#define DTRAIN_TASKS_PRETRAINING_TASK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/tasks/pretraining/document_shard.h"
#include "dtrain/tasks/pretraining/examples.h"
#include "dtrain/tasks/pretraining/head.h"
#include "dtrain/tasks/pretraining/loader.h"
#include "dtrain/tasks/shared/model_task.h"

namespace dtrain {

struct PretrainingTaskOptions {
  std::string train;                        // a document shard
  std::string dev = {};                     // another, or none: no evaluations
  PretrainingExampleOptions examples = {};  // of both; the seed is that of the training data
  BertOptions model = {};                   // a vocab_size of 0 is that of the data
  BatchOptions batch = {};                  // of an update over all ranks; its samples are examples
  int64_t micro_batch_tokens = 16384;  // a rank's share is cut into micro-batches of at most this
  Device device = {};                  // where the model lives
  DType compute_type = DType::kFloat32;
  uint64_t seed = 1;                  // of the weights' first values
  int64_t eval_batch_tokens = 8192;   // evaluated at once, on a rank
  std::vector<NamedFile> files = {};  // travel in checkpoints: configuration, vocabulary
};

// The examples to evaluate on, of a shard which outlives them: the same for every run, whatever the
// seed of `options`. DataError: too few documents.
StatusOr<PretrainingExamples> EvaluationExamples(const DocumentShard& shard,
                                                 const PretrainingExampleOptions& options);

// Measures a model on examples: "loss" (the sum of the two losses), "mlm_loss" and "ppl" of masked
// tokens in nats, "mlm_accuracy"; with the next sentence also "nsp_loss" and "nsp_accuracy". All
// ranks call it and share the batches. The result does not depend on the number of ranks.
EvaluationResult EvaluatePretraining(BertPretraining& model, const PretrainingExamples& examples,
                                     int64_t batch_tokens, Communicator& comm, Context& ctx);

class PretrainingTask final
    : public ModelTask<BertPretraining, PretrainingBatch, PretrainingInputs> {
 public:
  // Opens the data and initialises the model. The communicator outlives the task. DataError: a
  // shard is missing, damaged, of another vocabulary, or has fewer examples than there are ranks.
  // UsageError: options that cannot be or do not fit the data.
  static StatusOr<std::unique_ptr<PretrainingTask>> Create(const PretrainingTaskOptions& options,
                                                           Communicator& comm);

  Status Seek(const DataPosition& position) override;
  EpochInfo epoch() const override {
    return {.samples = epoch_samples(),
            .order = SampleOrderOf(options_.batch),
            .updates_until = [this](const DataPosition& from, int64_t epochs) {
              return UpdatesUntil(from, epochs);
            }};
  }
  StatusOr<int> NextUpdate() override;
  double losses_per_update() const override;  // masked tokens
  std::string GraphKey() const override;
  Evaluation evaluation() override {
    return {.dev = [this](Context& ctx) { return Evaluate(ctx); }};
  }
  Identity identity() const override;
  CheckpointContents checkpoint() const override;

  // Measures the dev set, whose examples and masks are the same each time. No metrics without one.
  StatusOr<EvaluationResult> Evaluate(Context& ctx);
  std::vector<NamedFile> CheckpointFiles() const { return options_.files; }

  const DocumentShard& train_shard() const { return train_; }
  // How many examples of the first pass over the training data have so many tokens: [max_length +
  // 1]; those examples and their updates. Other passes have a few more or less.
  std::span<const int64_t> length_counts() const { return length_counts_; }
  int64_t examples_per_epoch() const;
  int64_t updates_per_epoch() const { return updates_per_epoch_; }

 private:
  std::optional<int64_t> UpdatesUntil(const DataPosition& from, int64_t epochs) const;
  PretrainingTask(const PretrainingTaskOptions& options, Communicator& comm, DocumentShard train);
  Status PlanFirstEpoch();
  Status OpenDev();
  PretrainingLoaderOptions LoaderOptions() const;
  void StartAt(const DataPosition& position, PretrainingLoader loader);

  PretrainingTaskOptions options_;
  DocumentShard train_;
  std::optional<DocumentShard> dev_;
  std::optional<PretrainingExamples> dev_examples_;
  std::vector<int64_t> length_counts_;
  int64_t updates_per_epoch_ = 0;
  std::optional<PretrainingLoader> loader_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_TASK_H_
