// trained_tagger.h - opens a trained tagger: weights, vocabulary, tags, configuration.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TOKEN_CLASSIFICATION_INTERNAL_TRAINED_TAGGER_H_
#define DTRAIN_TASKS_TOKEN_CLASSIFICATION_INTERNAL_TRAINED_TAGGER_H_

#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/runs/checkpoint.h"
#include "dtrain/tasks/token_classification/head.h"
#include "dtrain/token_classification.pb.h"

namespace dtrain::internal {

// A checkpoint of bert_tag and what it says about itself.
struct TrainedTagger {
  Checkpoint checkpoint;
  // The run's, with the user's changes and the checkpoint's vocabulary.
  proto::TokenClassificationConfig config;
  std::vector<std::string> tags;  // by number
};

// `user` is what the command line says: it wins over the run's configuration. StorageError: nothing
// there, damaged, of another program. UsageError: settings that are not those of the weights.
StatusOr<TrainedTagger> OpenTrainedTagger(const proto::TokenClassificationConfig& user);
// As the run was configured.
StatusOr<TrainedTagger> OpenTrainedTagger(const std::string& path);

// The model, with its weights. A model trained in fp16 computes in fp32 on CPUs.
StatusOr<std::unique_ptr<BertTokenClassifier>> LoadTagger(const TrainedTagger& trained,
                                                          const Device& device, DType compute_type);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_INTERNAL_TRAINED_TAGGER_H_
