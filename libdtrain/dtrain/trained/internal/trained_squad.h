// trained_squad.h - opens a model that answers questions: weights, vocabulary, configuration.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAINED_INTERNAL_TRAINED_SQUAD_H_
#define DTRAIN_TRAINED_INTERNAL_TRAINED_SQUAD_H_

#include <memory>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/data/wordpiece.h"
#include "dtrain/files/checkpoint.h"
#include "dtrain/models/bert_question_answering.h"
#include "dtrain/squad.pb.h"

namespace dtrain::internal {

// A checkpoint of bert_squad and what it says about itself.
struct TrainedSquad {
  Checkpoint checkpoint;
  proto::SquadConfig config;  // the run's, with the user's changes and the checkpoint's vocabulary
  WordPieceTokenizer tokenizer;
  bool allow_none = false;  // it learned that questions may have no answer
};

// `user` is what the command line says: what it sets wins over the run's configuration. Where it
// names data.dev or data.test, the run's own files are none of its business.
// StorageError: nothing there, damaged, of another program. UsageError: settings that are not those
// of the weights.
absl::StatusOr<TrainedSquad> OpenTrainedSquad(const proto::SquadConfig& user);
// As the run was configured; of its checkpoints the best by `metric`, "": by the run's own.
absl::StatusOr<TrainedSquad> OpenTrainedSquad(const std::string& path, const std::string& metric);

// The model, with its weights. A model trained in fp16 computes in fp32 on CPUs.
absl::StatusOr<std::unique_ptr<BertQuestionAnswering>> LoadSquadModel(const TrainedSquad& trained,
                                                                      const Device& device,
                                                                      DType compute_type);

}  // namespace dtrain::internal

#endif  // DTRAIN_TRAINED_INTERNAL_TRAINED_SQUAD_H_
