// answers.h - from a model's logits to the texts of answers, and the files of predictions.
// SPDX-License-Identifier: Apache-2.0
//
//   std::vector<SquadPrediction> predictions;
//   for (int64_t q = 0; q < windows.num_questions(); ++q) {
//     predictions.push_back(AnswerOf(set, windows, q, logits of WindowsOf(q), options));
//   }
//   DT_RETURN_IF_ERROR(WriteSquadPredictions("out", set, predictions, options.allow_none));
//
// The rules are those of google-research/bert's run_squad.py, but that a text is what stands in the
// context from the first token's first byte to the last one's last: nothing is put together again
// from pieces. Where candidates have the same score, the one of the earlier window comes first, in
// it that of the earlier start, then end.
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_ANSWERS_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_ANSWERS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/question_answering/question_answering_model.h"
#include "dtrain/tasks/question_answering/squad_reader.h"
#include "dtrain/tasks/question_answering/windows.h"

namespace dtrain {

// The logits of one window, [its length] each: one for every token of the row.
struct SquadLogits {
  std::span<const float> start;
  std::span<const float> end;
};

// `logits` are of windows.WindowsOf(question), in order. Starts count only in the window that shows
// most of the context around them. Logits that are not finite are passed over.
SquadPrediction AnswerOf(const SquadSet& set, const SquadWindows& windows, int64_t question,
                         std::span<const SquadLogits> logits, const SquadAnswerOptions& options);

// The files that WriteSquadPredictions() writes, in its order.
inline constexpr std::array<const char*, 3> kSquadPredictionFiles = {
    "predictions.json", "nbest_predictions.json", "null_odds.json"};

// Into `folder`, which is made: predictions.json {id: text}, nbest_predictions.json {id: [{text,
// probability, start_logit, end_logit}]} and, `with_null_odds`, null_odds.json {id: number}, in the
// order of the set; UTF-8. `predictions` are of all its questions. StorageError.
Status WriteSquadPredictions(const std::string& folder, const SquadSet& set,
                             std::span<const SquadPrediction> predictions, bool with_null_odds);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_ANSWERS_H_
