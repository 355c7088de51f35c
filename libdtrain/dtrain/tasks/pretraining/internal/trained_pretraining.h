// trained_pretraining.h - opens a model that bert_pretrain trained: weights and configuration.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_INTERNAL_TRAINED_PRETRAINING_H_
#define DTRAIN_TASKS_PRETRAINING_INTERNAL_TRAINED_PRETRAINING_H_

#include <memory>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/tasks/pretraining/head.h"
#include "dtrain/tasks/shared/internal/trained_run.h"

namespace dtrain::internal {

// A checkpoint of bert_pretrain and what it says about itself.
using TrainedPretraining = TrainedRun<proto::PretrainConfig>;

// `user` is what the command line says: what it sets wins over the run's configuration.
// StorageError: nothing there, damaged, of another program.
StatusOr<TrainedPretraining> OpenTrainedPretraining(const proto::PretrainConfig& user);
// As the run was configured; of its checkpoints the best by `metric`, "": by the run's own.
StatusOr<TrainedPretraining> OpenTrainedPretraining(const std::string& path,
                                                    const std::string& metric);

// The model, with its weights. A model trained in fp16 computes in fp32 on CPUs.
StatusOr<std::unique_ptr<BertPretraining>> LoadPretrainingModel(const TrainedPretraining& trained,
                                                                const Device& device,
                                                                DType compute_type);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_PRETRAINING_INTERNAL_TRAINED_PRETRAINING_H_
