// task.h - tagging as a training task: sentences, BERT, F1 of entities.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TOKEN_CLASSIFICATION_TASK_H_
#define DTRAIN_TASKS_TOKEN_CLASSIFICATION_TASK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/tasks/shared/walked_task.h"
#include "dtrain/tasks/token_classification/conll_reader.h"
#include "dtrain/tasks/token_classification/head.h"
#include "dtrain/tasks/token_classification/rows.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain {

struct TaggingTaskOptions {
  std::vector<std::string> train;
  std::vector<std::string> dev = {};  // perhaps none: no evaluations
  ConllOptions conll = {};
  std::vector<std::string> tags = {};     // by number; none: those of the training data
  int32_t max_length = 128;               // tokens of a row
  BertTokenClassifierOptions model = {};  // the data sets num_tags, and a vocab_size of 0
  BatchOptions batch = {};                // of an update over all ranks; its samples are rows
  int64_t micro_batch_tokens = 16384;  // a rank's share is cut into micro-batches of at most this
  Device device = {};                  // where the model lives
  DType compute_type = DType::kFloat32;
  uint64_t seed = 1;                  // of the weights' first values
  int64_t eval_batch_tokens = 8192;   // evaluated at once, on a rank
  std::vector<NamedFile> files = {};  // travel in checkpoints: configuration, vocabulary
};

// Sentences as they were read, and as rows.
struct TaggedData {
  ConllSet set;
  TaggedRows rows;
};

// The file tags.txt of a checkpoint: a tag a line.
std::string TagsText(const std::vector<std::string>& tags);

class TaggingTask final : public WalkedTask<BertTokenClassifier, TaggingBatch, TaggingInputs> {
 public:
  // Reads the sentences, on each rank, and initialises the model. The communicator outlives the
  // task. DataError: a file that cannot be used, or fewer rows than ranks. UsageError: options that
  // do not fit the data.
  static StatusOr<std::unique_ptr<TaggingTask>> Create(const TaggingTaskOptions& options,
                                                       const TextTokenizer& tokenizer,
                                                       Communicator& comm);

  Evaluation evaluation() override {
    return {.dev = [this](Context& ctx) { return Evaluate(ctx); }};
  }
  Identity identity() const override {
    return IdentityOf(TrainingData(), Measured(), ModelTextOf(options_.model.bert));
  }
  CheckpointContents checkpoint() const override;
  double losses_per_update() const override;  // words
  std::string GraphKey() const override;

  // The metrics of the dev set (tasks/token_classification/predictions.h); none without one.
  StatusOr<EvaluationResult> Evaluate(Context& ctx);

  const TaggedData& train() const { return train_; }
  const TaggedData* dev() const { return dev_ ? &*dev_ : nullptr; }
  const std::vector<std::string>& tags() const { return options_.tags; }

 private:
  TaggingTask(const TaggingTaskOptions& options, TaggedData train, uint64_t vocabulary,
              Communicator& comm);
  std::string TrainingData() const;
  std::string Measured() const;  // the dev set, and what else decides its metrics
  TaggingBatch Pack(std::span<const uint32_t> rows) const override {
    return train_.rows.Pack(rows);
  }
  int64_t LossesOf(uint32_t row) const override { return train_.rows.num_words(row); }

  TaggingTaskOptions options_;
  TaggedData train_;
  std::optional<TaggedData> dev_;
  uint64_t vocabulary_;  // its hash
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_TASK_H_
