// use.cc - measures a trained language model, or lets it write.
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/log.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/distributed/agreement.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/launch/internal/print_on_root.h"
#include "dtrain/nn/context.h"
#include "dtrain/runs/output_folder.h"
#include "dtrain/tasks/language_model/config.h"
#include "dtrain/tasks/language_model/evaluation.h"
#include "dtrain/tasks/language_model/internal/trained_language_model.h"
#include "dtrain/tasks/language_model/program.h"
#include "dtrain/tasks/language_model/tokens.h"
#include "dtrain/tasks/shared/internal/metrics_text.h"
#include "dtrain/tasks/shared/internal/trained_run.h"

namespace dtrain {
namespace {

using internal::PrintOnRoot;
using internal::TrainedLanguageModel;

// A trained model in memory and what it computes with.
struct LoadedModel {
  std::unique_ptr<Gpt> model;
  Context context;
};

StatusOr<LoadedModel> Load(const TrainedLanguageModel& trained, const Runtime& runtime) {
  DT_RETURN_IF_ERROR(internal::CheckSameCheckpoint(trained.checkpoint, runtime.comm));
  const DType type = internal::DTypeOf(trained.config.trainer().precision());
  DT_ASSIGN_OR_RETURN(std::unique_ptr<Gpt> model,
                      internal::LoadLanguageModel(trained, runtime.device, type));
  const DType compute_type = model->parameters().compute_type();
  return LoadedModel{std::move(model), Context(runtime.device, {.compute_type = compute_type})};
}

// "dev (40 windows)  loss 1.2345  ppl 3.4367  bits_per_byte 1.7810".
Status Measure(const char* name, LoadedModel& loaded, const TextWindows& windows,
               int64_t batch_tokens, Runtime& runtime) {
  // Each rank reads them for itself, and the losses of all are added.
  DT_RETURN_IF_ERROR(CheckRanksAgree(
      {{"texts", absl::StrFormat("bytes %d\ncrc32c %08x\n", windows.bytes(), windows.set().crc)}},
      runtime.comm));
  const EvaluationResult result =
      EvaluateWindows(*loaded.model, windows, batch_tokens, runtime.comm, loaded.context);
  return PrintOnRoot(runtime, absl::StrFormat("%s (%d windows)%s\n", name, windows.size(),
                                              internal::MetricsText(result)));
}

struct NamedWindows {
  const char* name;
  TextWindows windows;
};

// The sets that the configuration names.
StatusOr<std::vector<NamedWindows>> SetsOf(const proto::LanguageModelConfig& config,
                                           const Device& device) {
  const proto::LanguageModelDataConfig& data = config.data();
  LanguageModelTaskOptions options = LanguageModelTaskOf(config, /*seed=*/1, device);
  std::vector<NamedWindows> sets;
  if (data.dev_size() == 0 && data.test_size() == 0) {
    if (data.train_size() == 0 || data.hold_out() == 0.0F) {
      return UsageError("no texts to evaluate on: the run had none; set data.dev or data.test");
    }
    DT_ASSIGN_OR_RETURN(LanguageModelData held, ReadData(options));
    sets.push_back({"held out", *std::move(held.dev)});
  }
  const auto add = [&](const char* name, const auto& paths) -> Status {
    if (paths.empty()) return OkStatus();
    options.train = {paths.begin(), paths.end()};
    options.dev = {};
    options.hold_out = 0.0;
    DT_ASSIGN_OR_RETURN(LanguageModelData read, ReadData(options));
    sets.push_back({name, std::move(read.train)});
    return OkStatus();
  };
  DT_RETURN_IF_ERROR(add("dev", data.dev()));
  DT_RETURN_IF_ERROR(add("test", data.test()));
  return sets;
}

// Longer prompts lose their beginnings: the last token before what is drawn has the last position.
std::vector<int32_t> FitPrompt(std::vector<int32_t> ids, int64_t positions) {
  const auto most = static_cast<size_t>(positions);
  if (ids.size() <= most) return ids;
  LogWarning(
      absl::StrFormat("a prompt of %d bytes is longer than the model's %d positions; only "
                      "its end is read",
                      ids.size() - 1, positions));
  ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(most));
  return ids;
}

// Each line with what the model makes follow, and an empty line.
std::string Continue(const std::vector<std::string>& lines, const SamplingOptions& options,
                     LoadedModel& loaded) {
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string& line : lines) {
    prompts.push_back(FitPrompt(PromptOf(line), loaded.model->options().max_positions));
  }
  const auto drawn = Sample(*loaded.model, prompts, options, loaded.context);
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    // What is drawn may end within a character.
    absl::StrAppend(&text, lines[i], ReplaceInvalidUtf8(TextOf(drawn[i])), "\n\n");
  }
  return text;
}

}  // namespace

Status EvaluateLanguageModel(const proto::LanguageModelConfig& user, Runtime& runtime) {
  DT_ASSIGN_OR_RETURN(TrainedLanguageModel trained, internal::OpenTrainedLanguageModel(user));
  internal::EmptyLists(runtime.arguments, {"data.dev", "data.test"}, trained.config);
  DT_ASSIGN_OR_RETURN(const std::vector<NamedWindows> sets, SetsOf(trained.config, runtime.device));
  DT_RETURN_IF_ERROR(PrintOnRoot(runtime, absl::StrCat("model ", trained.checkpoint.path(), "\n")));
  DT_ASSIGN_OR_RETURN(LoadedModel loaded, Load(trained, runtime));
  for (const NamedWindows& set : sets) {
    DT_RETURN_IF_ERROR(Measure(set.name, loaded, set.windows,
                               trained.config.trainer().eval_batch_tokens(), runtime));
  }
  return OkStatus();
}

Status GenerateTexts(const proto::LanguageModelConfig& user, Runtime& runtime) {
  if (runtime.comm.size() > 1) {
    return UsageError("generate writes in one process: start it without mpirun");
  }
  DT_ASSIGN_OR_RETURN(const TrainedLanguageModel trained, internal::OpenTrainedLanguageModel(user));
  const std::string& path = trained.config.generate().prompts();
  const std::string& output = user.predict().output();
  if (!output.empty()) {
    DT_RETURN_IF_ERROR(CheckIsNotRead("predict.output", output, std::vector<std::string>{path}));
    DT_RETURN_IF_ERROR(MakeDirectories(ParentOf(output)));
    DT_RETURN_IF_ERROR(AtomicFile::Create(output).status());
  }
  DT_ASSIGN_OR_RETURN(
      TextReader reader,
      TextReader::OpenInput(path, {.invalid = internal::InvalidTextOf(user.predict().invalid())}));
  DT_ASSIGN_OR_RETURN(LoadedModel loaded, Load(trained, runtime));
  SamplingOptions options = SamplingOptionsOf(trained.config.generate());
  std::string all;
  std::vector<std::string> lines;
  for (;;) {
    DT_RETURN_IF_ERROR(reader.NextLines(options.batch_texts, lines));
    if (lines.empty()) break;
    const std::string text = Continue(lines, options, loaded);
    options.first_text += static_cast<int64_t>(lines.size());
    if (output.empty()) DT_RETURN_IF_ERROR(WriteStdout(text));
    all += text;
  }
  if (const std::string invalid = reader.DescribeInvalid(); !invalid.empty()) LogWarning(invalid);
  return output.empty() ? OkStatus() : WriteFileAtomically(output, all);
}

}  // namespace dtrain
