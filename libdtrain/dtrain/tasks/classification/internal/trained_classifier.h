// trained_classifier.h - opens a trained classifier: weights, vocabulary, labels, configuration.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_INTERNAL_TRAINED_CLASSIFIER_H_
#define DTRAIN_TASKS_CLASSIFICATION_INTERNAL_TRAINED_CLASSIFIER_H_

#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/runs/checkpoint.h"
#include "dtrain/tasks/classification/classification_model.h"
#include "dtrain/tasks/classification/classification_shard.h"
#include "dtrain/tasks/classification/head.h"

namespace dtrain::proto {
class ClassificationConfig;
}  // namespace dtrain::proto

namespace dtrain {

// A checkpoint of bert_classify and what it says about itself.
struct TrainedClassifier {
  Checkpoint checkpoint;
  // The run's, with the user's changes. Shared because its type ends with the .cc files.
  std::shared_ptr<const proto::ClassificationConfig> config;
  LabelKind label_kind = LabelKind::kClass;
  std::vector<std::string> label_names;  // of classes or labels; none of values
};

// `user` is what the command line says: what it sets wins over the run's configuration, and where
// it names files of texts those take the place of all of the run's. The vocabulary is the
// checkpoint's. StorageError: nothing there, damaged, of another program, without vocabulary.
StatusOr<TrainedClassifier> OpenTrainedClassifier(const proto::ClassificationConfig& user);
// As the run was configured; of its checkpoints the best by `metric`, "": by the run's own.
StatusOr<TrainedClassifier> OpenTrainedClassifier(const std::string& path,
                                                  const std::string& metric);

// The model with its tokenizer, for texts that are no files.
StatusOr<ClassificationModel> MakeClassificationModel(const TrainedClassifier& trained,
                                                      const Device& device, DType compute_type);

// The model, with its weights.
StatusOr<std::unique_ptr<BertClassifier>> LoadClassifier(const TrainedClassifier& trained,
                                                         const Device& device, DType compute_type);
// The same for texts as in the shard. UsageError: the shard has labels of another kind or number.
StatusOr<std::unique_ptr<BertClassifier>> LoadClassifier(const TrainedClassifier& trained,
                                                         const ClassificationShardInfo& info,
                                                         const Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_INTERNAL_TRAINED_CLASSIFIER_H_
