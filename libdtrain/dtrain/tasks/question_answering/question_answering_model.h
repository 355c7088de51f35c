// question_answering_model.h - opens a model that answers questions, and asks it.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const QuestionAnsweringModel trained,
//                       LoadQuestionAnsweringModel("runs/squad"));
//   Context ctx(runtime.device, {.compute_type = trained.compute_type});
//   const auto answers = AnswerQuestions(trained, {{"Who came?", "An old dog came."}}, ctx);
//   const std::string& best = (*answers)[0].text;  // "" where the text holds no answer
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_QUESTION_ANSWERING_MODEL_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_QUESTION_ANSWERING_MODEL_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/base/status.h"
#include "dtrain/nn/context.h"
#include "dtrain/tasks/question_answering/answers.h"
#include "dtrain/tasks/question_answering/head.h"
#include "dtrain/tasks/question_answering/windows.h"
#include "dtrain/tasks/shared/load_model.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain {

// A model ready to answer; its context must have the same compute type.
struct QuestionAnsweringModel {
  std::string path;  // of the checkpoint
  int64_t step = 0;
  SquadWindowOptions windows = {};  // as the run was trained
  SquadAnswerOptions answers = {};  // allow_none: it learned that there may be no answer
  DType compute_type = DType::kFloat32;
  WordPieceTokenizer tokenizer;
  std::unique_ptr<BertQuestionAnswering> model;
};

// `path` is a run directory of bert_squad, a folder of checkpoints or one checkpoint. Weights are
// the moving average where the run kept one. StorageError (exit code 7): nothing there, damaged, or
// of another program; the message names the file.
StatusOr<QuestionAnsweringModel> LoadQuestionAnsweringModel(const std::string& path,
                                                            const LoadModelOptions& options = {});

struct AskedQuestion {
  std::string_view question;
  std::string_view context;  // where the answer may stand
};

// The answers, in the order of the questions, on this rank alone. Windows run longest first in
// batches of at most batch_tokens. The context is not training. UsageError: trained.windows leave
// no room for a context.
StatusOr<std::vector<SquadPrediction>> AnswerQuestions(const QuestionAnsweringModel& trained,
                                                       std::span<const AskedQuestion> questions,
                                                       Context& ctx, int64_t batch_tokens = 8192);
inline StatusOr<std::vector<SquadPrediction>> AnswerQuestions(
    const QuestionAnsweringModel& trained, std::initializer_list<AskedQuestion> questions,
    Context& ctx) {
  return AnswerQuestions(trained, std::span(questions.begin(), questions.size()), ctx);
}

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_QUESTION_ANSWERING_MODEL_H_
