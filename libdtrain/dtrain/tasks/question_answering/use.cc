// use.cc - measures a model that answers questions, or writes its answers.
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/printable.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/distributed/agreement.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/launch/internal/print_on_root.h"
#include "dtrain/nn/context.h"
#include "dtrain/runs/output_folder.h"
#include "dtrain/tasks/question_answering/internal/options.h"
#include "dtrain/tasks/question_answering/internal/trained_question_answering.h"
#include "dtrain/tasks/question_answering/program.h"
#include "dtrain/tasks/question_answering/window_scores.h"
#include "dtrain/tasks/shared/internal/metrics_text.h"
#include "dtrain/tasks/shared/internal/trained_run.h"

namespace dtrain {
namespace {

using internal::TrainedSquad;

using internal::PrintOnRoot;

struct AnsweredSet {
  SquadRows rows;
  WindowScores scores;
  SquadAnswerOptions options;
  std::vector<SquadPrediction> predictions;
};

// A trained model in memory and what it computes with.
struct LoadedSquad {
  const TrainedSquad& trained;
  std::unique_ptr<BertQuestionAnswering> model;
  Context context;
};
StatusOr<LoadedSquad> Load(const TrainedSquad& trained, const Runtime& runtime) {
  DT_RETURN_IF_ERROR(internal::CheckSameCheckpoint(trained.checkpoint, runtime.comm));
  const DType type = internal::DTypeOf(trained.config.trainer().precision());
  DT_ASSIGN_OR_RETURN(std::unique_ptr<BertQuestionAnswering> model,
                      internal::LoadSquadModel(trained, runtime.device, type));
  const DType compute_type = model->parameters().compute_type();
  return LoadedSquad{trained, std::move(model),
                     Context(runtime.device, {.compute_type = compute_type})};
}

// What the model says of the questions in `paths`.
template <typename Paths>
StatusOr<AnsweredSet> Answer(LoadedSquad& loaded, const Paths& paths, SquadAnswers answers,
                             InvalidText invalid, Runtime& runtime) {
  const proto::SquadConfig& config = loaded.trained.config;
  DT_ASSIGN_OR_RETURN(SquadRows rows,
                      OpenSquad({paths.begin(), paths.end()}, answers, loaded.trained.tokenizer,
                                internal::WindowsOf(config.data()), invalid));
  // Each rank reads them for itself, and the scores of all are added.
  DT_RETURN_IF_ERROR(CheckRanksAgree(
      {{"questions",
        absl::StrFormat("questions %d\ncrc32c %08x\nwindows %d\n", rows.set.questions.size(),
                        rows.set.crc, rows.windows.size())}},
      runtime.comm));
  SquadAnswerOptions options = internal::AnswersOf(config.answer());
  options.allow_none = loaded.trained.allow_none || rows.set.has_impossible;
  WindowScores scores =
      ScoreWindows(*loaded.model, rows.windows, config.trainer().eval_batch_tokens(), runtime.comm,
                   loaded.context);
  std::vector<SquadPrediction> predictions = AnswersOf(rows, scores, options);
  return AnsweredSet{std::move(rows), std::move(scores), options, std::move(predictions)};
}

// "dev (40 questions)  loss 0.1234  f1 91.0000".
template <typename Paths>
Status Measure(const char* name, LoadedSquad& loaded, const Paths& paths, Runtime& runtime) {
  if (paths.empty()) return OkStatus();
  DT_ASSIGN_OR_RETURN(const AnsweredSet set,
                      Answer(loaded, paths, SquadAnswers::kRequired, InvalidText::kFail, runtime));
  std::string text = absl::StrFormat("%s (%d questions)", name, set.predictions.size());
  const EvaluationResult result = EvaluateSquad(set.rows, set.scores, set.predictions, set.options);
  text += internal::MetricsText(result);
  return PrintOnRoot(runtime, text + "\n");
}

// That no file of predictions takes the place of one that is read.
Status CheckPredictions(const std::string& folder, const proto::SquadDataConfig& data) {
  std::vector<std::string> inputs = {data.vocabulary()};
  for (const auto* const list : {&data.train(), &data.dev(), &data.test()}) {
    inputs.insert(inputs.end(), list->begin(), list->end());
  }
  for (const char* const name : kSquadPredictionFiles) {
    DT_RETURN_IF_ERROR(CheckIsNotRead("predict.output", absl::StrCat(folder, "/", name), inputs));
  }
  return OkStatus();
}

}  // namespace

Status EvaluateSquadModel(const proto::SquadConfig& user, Runtime& runtime) {
  DT_ASSIGN_OR_RETURN(TrainedSquad trained, internal::OpenTrainedSquad(user));
  internal::EmptyLists(runtime.arguments, {"data.dev", "data.test"}, trained.config);
  const auto& dev = trained.config.data().dev();
  // The run's own were to be answered and may have no answers.
  const auto& test = user.data().test();
  if (dev.empty() && test.empty()) {
    return UsageError("no questions to evaluate on: the run had no data.dev, set it or data.test");
  }
  DT_RETURN_IF_ERROR(PrintOnRoot(runtime, absl::StrCat("model ", trained.checkpoint.path(), "\n")));
  DT_ASSIGN_OR_RETURN(LoadedSquad loaded, Load(trained, runtime));
  DT_RETURN_IF_ERROR(Measure("dev", loaded, dev, runtime));
  return Measure("test", loaded, test, runtime);
}

Status PredictSquad(const proto::SquadConfig& user, Runtime& runtime) {
  const InvalidText invalid = internal::InvalidTextOf(user.predict().invalid());
  if (invalid == InvalidText::kSkip) {
    return UsageError(
        "predict.invalid=skip is for tables; a file of questions is one whole: set replace or "
        "fail");
  }
  DT_ASSIGN_OR_RETURN(TrainedSquad trained, internal::OpenTrainedSquad(user));
  internal::EmptyLists(runtime.arguments, {"data.dev", "data.test"}, trained.config);
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
  DT_RETURN_IF_ERROR(
      ShareRootStatus(runtime.comm.is_root() ? CheckPredictions(folder, data) : OkStatus(),
                      "look at predict.output", runtime.comm));
  // Before the work, whether what it gives can be kept.
  if (runtime.comm.is_root()) {
    DT_RETURN_IF_ERROR(MakeDirectories(folder));
    for (const char* const name : kSquadPredictionFiles) {
      DT_RETURN_IF_ERROR(AtomicFile::Create(absl::StrCat(folder, "/", name)).status());
    }
  }
  DT_RETURN_IF_ERROR(PrintOnRoot(runtime, absl::StrCat("model ", trained.checkpoint.path(), "\n")));
  DT_ASSIGN_OR_RETURN(LoadedSquad loaded, Load(trained, runtime));
  DT_ASSIGN_OR_RETURN(const AnsweredSet set,
                      Answer(loaded, paths, SquadAnswers::kOptional, invalid, runtime));
  if (runtime.comm.is_root()) {
    DT_RETURN_IF_ERROR(
        WriteSquadPredictions(folder, set.rows.set, set.predictions, set.options.allow_none));
  }
  return PrintOnRoot(runtime, absl::StrFormat("%d questions answered, written to %s\n",
                                              set.predictions.size(), folder));
}

}  // namespace dtrain
