// trained_language_model.h - opens a trained language model: weights and configuration.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_LANGUAGE_MODEL_INTERNAL_TRAINED_LANGUAGE_MODEL_H_
#define DTRAIN_TASKS_LANGUAGE_MODEL_INTERNAL_TRAINED_LANGUAGE_MODEL_H_

#include <memory>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/language_model.pb.h"
#include "dtrain/models/gpt.h"
#include "dtrain/runs/checkpoint.h"

namespace dtrain::internal {

// A checkpoint of lm_train and what it says about itself.
struct TrainedLanguageModel {
  Checkpoint checkpoint;
  proto::LanguageModelConfig config;  // the run's, with the user's changes
};

// `user` is what the command line says: it wins over the run's configuration. StorageError: nothing
// there, damaged, of another program. UsageError: settings that are not those of the weights.
StatusOr<TrainedLanguageModel> OpenTrainedLanguageModel(const proto::LanguageModelConfig& user);
// As the run was configured.
StatusOr<TrainedLanguageModel> OpenTrainedLanguageModel(const std::string& path);

// The model, with its weights. A model trained in fp16 computes in fp32 on CPUs.
StatusOr<std::unique_ptr<Gpt>> LoadLanguageModel(const TrainedLanguageModel& trained,
                                                 const Device& device, DType compute_type);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_LANGUAGE_MODEL_INTERNAL_TRAINED_LANGUAGE_MODEL_H_
