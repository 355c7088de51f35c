// predictions.h - what a model says of every word of a set, and how good that is.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TOKEN_CLASSIFICATION_PREDICTIONS_H_
#define DTRAIN_TASKS_TOKEN_CLASSIFICATION_PREDICTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/nn/context.h"
#include "dtrain/tasks/token_classification/head.h"
#include "dtrain/tasks/token_classification/rows.h"
#include "dtrain/train/task.h"

namespace dtrain {

// In the order of the set's words.
struct TagPredictions {
  std::vector<int32_t> tags;  // numbers of tags
  std::vector<float> losses;  // 0 for a word without a gold tag
};

// One of the ranks tags each row, in batches that are the same for any number of ranks; all ranks
// get all predictions. Collective; the context is not training.
TagPredictions PredictTags(BertTokenClassifier& model, const TaggedRows& rows, int64_t batch_tokens,
                           Communicator& comm, Context& ctx);

// The names of the predicted tags, a list a sentence.
std::vector<std::vector<std::string>> NamesOf(const ConllSet& set,
                                              const TagPredictions& predictions,
                                              const std::vector<std::string>& tags);

// "loss" of a word, "f1", "precision" and "recall" of entities, and "accuracy" of words. All words
// have gold tags.
EvaluationResult EvaluateTags(const ConllSet& set, const TagPredictions& predictions,
                              const std::vector<std::string>& tags);
// Their names, in that order.
std::vector<std::string> TaggingMetricNames();

// Writes a word a line with its gold tag, where the set has them, and the predicted one; an empty
// line follows each sentence. The program conlleval reads such files.
Status WriteTags(const std::string& path, const ConllSet& set, const TagPredictions& predictions,
                 const std::vector<std::string>& tags);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_PREDICTIONS_H_
