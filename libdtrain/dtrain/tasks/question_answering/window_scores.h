// window_scores.h - what a model says of every window of a set of questions, and the answers in it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_WINDOW_SCORES_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_WINDOW_SCORES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/nn/context.h"
#include "dtrain/tasks/question_answering/answers.h"
#include "dtrain/tasks/question_answering/batch.h"
#include "dtrain/tasks/question_answering/head.h"
#include "dtrain/tasks/question_answering/squad_reader.h"
#include "dtrain/tasks/question_answering/windows.h"
#include "dtrain/train/task.h"

namespace dtrain {

// Questions as they were read, and as rows.
struct SquadRows {
  SquadSet set;
  SquadWindows windows;
};

// Reads and tokenises; each rank does so for itself. Errors:
// tasks/question_answering/squad_reader.h, tasks/question_answering/windows.h.
StatusOr<SquadRows> OpenSquad(const std::vector<std::string>& paths, SquadAnswers answers,
                              const TextTokenizer& tokenizer, const SquadWindowOptions& options,
                              InvalidText invalid = InvalidText::kFail);

// The windows `rows` with the places of their answers.
SpanBatch PackWindows(const SquadWindows& windows, std::span<const uint32_t> rows);

// In the order of the windows.
struct WindowScores {
  std::vector<int64_t> offsets;   // [windows + 1] into start and end
  std::vector<float> start, end;  // of every token of every window
  std::vector<float> losses;      // [windows]

  std::span<const float> start_of(int64_t window) const { return Of(start, window); }
  std::span<const float> end_of(int64_t window) const { return Of(end, window); }

 private:
  std::span<const float> Of(const std::vector<float>& scores, int64_t window) const {
    const auto begin = static_cast<size_t>(offsets[static_cast<size_t>(window)]);
    const auto last = static_cast<size_t>(offsets[static_cast<size_t>(window) + 1]);
    return std::span(scores).subspan(begin, last - begin);
  }
};

// Every window by one of the ranks, in batches that are the same for any number of ranks; all ranks
// get all scores. Collective; the context is not training.
WindowScores ScoreWindows(BertQuestionAnswering& model, const SquadWindows& windows,
                          int64_t batch_tokens, Communicator& comm, Context& ctx);

// The answers to all questions, in their order.
std::vector<SquadPrediction> AnswersOf(const SquadRows& rows, const WindowScores& scores,
                                       const SquadAnswerOptions& options);

// "loss", the mean over the windows whose answer is known, then "f1" and "exact_match" in percent.
// With options.allow_none also those of questions that have an answer and of those that have none,
// and the highest F1 that another null_threshold would give, with it ("best_f1",
// "best_f1_threshold").
EvaluationResult EvaluateSquad(const SquadRows& rows, const WindowScores& scores,
                               const std::vector<SquadPrediction>& predictions,
                               const SquadAnswerOptions& options);
// Their names, in that order.
std::vector<std::string> SquadMetricNames(bool allow_none);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_WINDOW_SCORES_H_
