// task.h - classification of texts as a training task: shards, BERT, metrics.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_TASK_H_
#define DTRAIN_TASKS_CLASSIFICATION_TASK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/tasks/classification/classification_shard.h"
#include "dtrain/tasks/classification/head.h"
#include "dtrain/tasks/classification/loader.h"
#include "dtrain/tasks/classification/predictions.h"
#include "dtrain/tasks/shared/model_task.h"

namespace dtrain {

// A shard to evaluate on, and what its metrics are called.
struct NamedShard {
  std::string name;  // "dev", "dev_mismatched"
  std::string path;
};

struct ClassificationTaskOptions {
  std::string train;                 // a shard
  std::vector<NamedShard> dev = {};  // the first one's metrics have no prefix
  std::string test = {};             // a shard, or none
  // loss and num_labels come from the data, and so does a vocab_size of 0.
  BertClassifierOptions model = {};
  BatchOptions batch = {};             // of an update over all ranks
  int64_t micro_batch_tokens = 16384;  // a rank's share is cut into micro-batches of at most this
  Device device = {};                  // where the model lives
  DType compute_type = DType::kFloat32;
  uint64_t seed = 1;                  // of the weights' first values
  int64_t eval_batch_tokens = 8192;   // evaluated at once, on a rank
  std::vector<NamedFile> files = {};  // travel in checkpoints: configuration, vocabulary
  bool balance_labels = false;        // model.label_weights that make all classes count alike
};

class ClassificationTask final
    : public ModelTask<BertClassifier, ClassificationBatch, ClassifierInputs> {
 public:
  // Opens the data and initialises the model. The communicator outlives the task. DataError: a file
  // is missing, damaged, of another vocabulary or other labels, or has fewer rows than there are
  // ranks. UsageError: options that do not fit the data.
  static StatusOr<std::unique_ptr<ClassificationTask>> Create(
      const ClassificationTaskOptions& options, Communicator& comm);

  Status Seek(const DataPosition& position) override;
  EpochInfo epoch() const override {
    return EpochOf(epoch_samples(), options_.batch, [this] { return train_.sample_lengths(); });
  }
  StatusOr<int> NextUpdate() override;
  double losses_per_update() const override;  // rows
  std::string GraphKey() const override { return GraphKeyOf(inputs().text.sequences); }
  Evaluation evaluation() override {
    return {
        .dev = [this](Context& ctx) { return Evaluate(ctx); },
        .test = [this](Context& ctx) { return EvaluateTest(ctx); },
        .sample = [this](Context& ctx) { return EvaluateSample(ctx); },
        .smaller_is_better = [this](const std::string& metric) { return SmallerIsBetter(metric); }};
  }
  Identity identity() const override {
    std::string model = ModelTextOf(options_.model.bert);
    if (!options_.model.bert.family->keys.pooling.empty()) {
      model += options_.model.mean_pooling ? "mean_pooling true\n" : "mean_pooling false\n";
    }
    return IdentityOf(TrainingData(), Measured(), std::move(model));
  }
  CheckpointContents checkpoint() const override {
    return ContentsOf(CheckpointFiles(), {"labels.txt"});
  }

  // The metrics of the dev sets, those after the first under their names:
  // "dev_mismatched/accuracy"; a table of one of several sets begins with its name. Warns where one
  // class, or the same labels, begin to be all that is predicted. None without a dev set.
  StatusOr<EvaluationResult> Evaluate(Context& ctx);
  // The losses alone, whatever words a label's name has (auc_NAME).
  bool SmallerIsBetter(const std::string& metric) const;
  // Measures the test set, if it has labels.
  StatusOr<EvaluationResult> EvaluateTest(Context& ctx);
  // The loss on a sample of the training texts. There must be a dev set.
  StatusOr<EvaluationResult> EvaluateSample(Context& ctx);
  // options.files; labels.txt: the names of classes or labels, a line each.
  std::vector<NamedFile> CheckpointFiles() const;

  const ClassificationShard& train_shard() const { return train_; }
  const std::vector<ClassificationShard>& dev_shards() const { return dev_; }
  // Updates of one pass over the training data.
  int64_t updates_per_epoch() const { return updates_per_epoch_; }

 private:
  std::string TrainingData() const;
  std::string Measured() const;
  ClassificationTask(const ClassificationTaskOptions& options, Communicator& comm,
                     ClassificationShard train);
  // A shard with the training data's labels.
  StatusOr<ClassificationShard> OpenAlike(const std::string& path) const;

  ClassificationTaskOptions options_;
  ClassificationShard train_;
  std::vector<ClassificationShard> dev_;
  int64_t updates_per_epoch_ = 0;
  std::optional<ClassificationLoader> loader_;
  bool collapsed_ = false;  // one answer was all that the last evaluation saw
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_TASK_H_
