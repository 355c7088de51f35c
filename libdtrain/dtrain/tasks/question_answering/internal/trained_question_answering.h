// trained_question_answering.h - opens a trained model for questions, with its vocabulary.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_INTERNAL_TRAINED_QUESTION_ANSWERING_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_INTERNAL_TRAINED_QUESTION_ANSWERING_H_

#include <memory>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/runs/checkpoint.h"
#include "dtrain/squad.pb.h"
#include "dtrain/tasks/question_answering/head.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain::internal {

// A checkpoint of bert_squad and what it says about itself.
struct TrainedSquad {
  Checkpoint checkpoint;
  proto::SquadConfig config;  // the run's, with the user's changes and the checkpoint's vocabulary
  TextTokenizer tokenizer;
  bool allow_none = false;  // it learned that questions may have no answer
};

// `user` is what the command line says: what it sets wins over the run's configuration. Where it
// names data.dev or data.test, the run's own files are none of its business.
// StorageError: nothing there, damaged, of another program. UsageError: settings that are not those
// of the weights.
StatusOr<TrainedSquad> OpenTrainedSquad(const proto::SquadConfig& user);
// As the run was configured; of its checkpoints the best by `metric`, "": by the run's own.
StatusOr<TrainedSquad> OpenTrainedSquad(const std::string& path, const std::string& metric);

// The model, with its weights. A model trained in fp16 computes in fp32 on CPUs.
StatusOr<std::unique_ptr<BertQuestionAnswering>> LoadSquadModel(const TrainedSquad& trained,
                                                                const Device& device,
                                                                DType compute_type);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_INTERNAL_TRAINED_QUESTION_ANSWERING_H_
