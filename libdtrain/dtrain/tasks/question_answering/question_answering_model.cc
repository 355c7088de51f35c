// question_answering_model.cc - a trained model as programs of one's own use it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/question_answering_model.h"

#include <utility>

#include "dtrain/comm/self_communicator.h"
#include "dtrain/tasks/question_answering/internal/options.h"
#include "dtrain/tasks/question_answering/internal/trained_question_answering.h"
#include "dtrain/tasks/question_answering/window_scores.h"

namespace dtrain {

StatusOr<QuestionAnsweringModel> LoadQuestionAnsweringModel(const std::string& path,
                                                            const LoadModelOptions& options) {
  DT_ASSIGN_OR_RETURN(internal::TrainedSquad trained,
                      internal::OpenTrainedSquad(path, options.metric));
  DT_ASSIGN_OR_RETURN(std::unique_ptr<BertQuestionAnswering> model,
                      internal::LoadSquadModel(trained, options.device, options.compute_type));
  QuestionAnsweringModel loaded{.path = trained.checkpoint.path(),
                                .step = trained.checkpoint.step(),
                                .windows = internal::WindowsOf(trained.config.data()),
                                .answers = internal::AnswersOf(trained.config.answer()),
                                .compute_type = model->parameters().compute_type(),
                                .tokenizer = std::move(trained.tokenizer),
                                .model = std::move(model)};
  loaded.answers.allow_none = trained.allow_none;
  return loaded;
}

StatusOr<std::vector<SquadPrediction>> AnswerQuestions(const QuestionAnsweringModel& trained,
                                                       std::span<const AskedQuestion> questions,
                                                       Context& ctx, int64_t batch_tokens) {
  SquadSet set;
  for (const AskedQuestion& asked : questions) {
    // Neighbours mostly ask about the same text.
    if (set.contexts.empty() || set.contexts.back() != asked.context) {
      set.contexts.emplace_back(asked.context);
    }
    set.questions.push_back({.id = {},
                             .text = std::string(asked.question),
                             .context = static_cast<int64_t>(set.contexts.size()) - 1,
                             .answers = {},
                             .is_impossible = false});
  }
  DT_ASSIGN_OR_RETURN(SquadWindows windows,
                      SquadWindows::Create(set, trained.tokenizer, trained.windows));
  const SquadRows rows{std::move(set), std::move(windows)};
  SelfCommunicator alone;
  const WindowScores scores = ScoreWindows(*trained.model, rows.windows, batch_tokens, alone, ctx);
  return AnswersOf(rows, scores, trained.answers);
}

}  // namespace dtrain
