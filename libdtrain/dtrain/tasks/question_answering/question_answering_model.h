// question_answering_model.h - opens a model that answers questions, and asks it.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const QuestionAnsweringModel trained,
//                       LoadQuestionAnsweringModel("runs/squad"));
//   Context ctx(runtime.device, {.compute_type = trained.compute_type});
//   DT_ASSIGN_OR_RETURN(const auto answers,
//                       AnswerQuestions(trained, {{"Who came?", "An old dog came."}}, ctx));
//   const std::string& best = answers[0].text;  // "" if the text holds no answer
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
#include "dtrain/tasks/shared/load_model.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain {

class BertQuestionAnswering;

// How a question and its context become rows. All values are in tokens.
struct SquadWindowOptions {
  int32_t max_length = 384;   // of a row, including special tokens
  int32_t stride = 128;       // distance between the starts of two windows in the context
  int32_t max_question = 64;  // longer questions lose their end
};

// How an answer is chosen from the scores of all tokens.
struct SquadAnswerOptions {
  int n_best = 20;             // starts and ends looked at in each window, and candidates kept
  int max_answer_length = 30;  // in tokens
  // With allow_none, a question has no answer if its null_odds are above this value.
  float null_threshold = 0.0f;
  bool allow_none = false;  // 2.0: a question may have no answer
};

// A possible answer, with its logits.
struct SquadCandidate {
  std::string text;          // "" for none
  double probability = 0.0;  // softmax of start_logit + end_logit over the candidates
  double start_logit = 0.0;
  double end_logit = 0.0;
};

// The answer to a question.
struct SquadPrediction {
  std::string text;  // "" for none
  // Different texts, best first; at least one. With allow_none "" is among them. Else, where the
  // logits leave nothing, it is the only one, with logits of 0.
  std::vector<SquadCandidate> candidates;
  // With allow_none: the score of "no answer" minus that of the best text (0 if there is no text).
  // The score of "no answer" is the lowest sum of a window's two logits of [CLS]. Finite.
  double null_odds = 0.0;
};

// A model ready to answer; its context must have the same compute type.
struct QuestionAnsweringModel {
  std::string path;  // of the checkpoint
  int64_t step = 0;
  SquadWindowOptions windows = {};  // as the run was trained
  SquadAnswerOptions answers = {};  // allow_none: it learned that there may be no answer
  DType compute_type = DType::kFloat32;
  TextTokenizer tokenizer;
  std::shared_ptr<BertQuestionAnswering> model;  // shared by copies
};

// `path` is a run directory of bert_squad, a folder of checkpoints or one checkpoint. Weights are
// the moving average where the run kept one. StorageError (exit code 7): nothing there, damaged, or
// of another program; the message names the file.
StatusOr<QuestionAnsweringModel> LoadQuestionAnsweringModel(const std::string& path,
                                                            const LoadModelOptions& options = {});

// A question about a text.
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
