// squad_use.cc - measures a model that answers questions, or writes its answers.
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/app/internal/config_values.h"
#include "dtrain/app/internal/squad_options.h"
#include "dtrain/app/internal/trained_squad.h"
#include "dtrain/app/squad_runs.h"
#include "dtrain/base/file.h"
#include "dtrain/nn/context.h"
#include "dtrain/train/window_scores.h"

namespace dtrain {
namespace {

using internal::TrainedSquad;

absl::Status Print(const Runtime& runtime, const std::string& text) {
  return runtime.comm.is_root() ? WriteStdout(text) : absl::OkStatus();
}

struct AnsweredSet {
  SquadRows rows;
  WindowScores scores;
  SquadAnswerOptions options;
  std::vector<SquadPrediction> predictions;
};

// What the model says of the questions in `paths`.
template <typename Paths>
absl::StatusOr<AnsweredSet> Answer(const TrainedSquad& trained, const Paths& paths,
                                   SquadAnswers answers, Runtime& runtime) {
  const proto::SquadConfig& config = trained.config;
  DT_ASSIGN_OR_RETURN(SquadRows rows,
                      OpenSquad({paths.begin(), paths.end()}, answers, trained.tokenizer,
                                internal::WindowsOf(config.data())));
  SquadAnswerOptions options = internal::AnswersOf(config.answer());
  options.allow_none = trained.allow_none || rows.set.has_impossible;
  const DType type = internal::DTypeOf(config.trainer().precision());
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<BertQuestionAnswering> model,
                      internal::LoadSquadModel(trained, runtime.device, type));
  Context context(runtime.device,
                  {.compute_type = model->parameters().compute_weights()
                                       ? model->parameters().compute_weights().dtype()
                                       : DType::kFloat32});
  WindowScores scores = ScoreWindows(*model, rows.windows, config.trainer().eval_batch_tokens(),
                                     runtime.comm, context);
  std::vector<SquadPrediction> predictions = AnswersOf(rows, scores, options);
  return AnsweredSet{std::move(rows), std::move(scores), options, std::move(predictions)};
}

}  // namespace

absl::Status EvaluateSquadModel(const proto::SquadConfig& user, Runtime& runtime) {
  DT_ASSIGN_OR_RETURN(const TrainedSquad trained, internal::OpenTrainedSquad(user));
  const auto& paths = trained.config.data().dev();
  if (paths.empty()) {
    return UsageError("no questions to evaluate on: the run had no data.dev, set it");
  }
  DT_RETURN_IF_ERROR(Print(runtime, absl::StrCat("model ", trained.checkpoint.path(), "\n")));
  DT_ASSIGN_OR_RETURN(const AnsweredSet set,
                      Answer(trained, paths, SquadAnswers::kRequired, runtime));
  std::string text = absl::StrFormat("dev (%d questions)", set.predictions.size());
  const EvaluationResult result = EvaluateSquad(set.rows, set.scores, set.predictions, set.options);
  for (const auto& [name, value] : result.metrics) {
    absl::StrAppendFormat(&text, "  %s %.4f", name, value);
  }
  return Print(runtime, text + "\n");
}

absl::Status PredictSquad(const proto::SquadConfig& user, Runtime& runtime) {
  DT_ASSIGN_OR_RETURN(const TrainedSquad trained, internal::OpenTrainedSquad(user));
  std::string folder = user.predict().output();
  if (folder.empty()) {
    if (user.run().run_dir().empty()) {
      return UsageError("where shall predictions go? set predict.output, or give --run_dir");
    }
    folder = user.run().run_dir() + "/predictions";
  }
  const proto::SquadDataConfig& data = trained.config.data();
  const auto& paths = data.test().empty() ? data.dev() : data.test();
  if (paths.empty()) return UsageError("no questions to answer: set data.test");
  // Before the work, whether what it gives can be kept.
  if (runtime.comm.is_root()) DT_RETURN_IF_ERROR(MakeDirectories(folder));
  DT_RETURN_IF_ERROR(Print(runtime, absl::StrCat("model ", trained.checkpoint.path(), "\n")));
  DT_ASSIGN_OR_RETURN(const AnsweredSet set,
                      Answer(trained, paths, SquadAnswers::kOptional, runtime));
  if (runtime.comm.is_root()) {
    DT_RETURN_IF_ERROR(
        WriteSquadPredictions(folder, set.rows.set, set.predictions, set.options.allow_none));
  }
  return Print(runtime, absl::StrFormat("%d questions answered, written to %s\n",
                                        set.predictions.size(), folder));
}

}  // namespace dtrain
