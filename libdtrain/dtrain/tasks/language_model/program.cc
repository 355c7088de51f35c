// program.cc - one run a seed: texts, task, trainer.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/program.h"

#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "dtrain/language_model.pb.h"
#include "dtrain/models/gpt_costs.h"
#include "dtrain/tasks/language_model/config.h"
#include "dtrain/tasks/language_model/export.h"
#include "dtrain/tasks/language_model/metrics.h"
#include "dtrain/tasks/language_model/task.h"
#include "dtrain/tasks/language_model/warm_up.h"
#include "dtrain/tasks/shared/internal/bert_training.h"
#include "dtrain/tasks/shared/internal/bert_workload.h"

namespace dtrain {
namespace {

BertCosts CostsOfModel(const GptOptions& model) {
  return [model](const BertBatch& batch) { return CostsOf(model, batch); };
}

void Report(const char* name, const TextWindows& windows, RunRecorder& recorder,
            const Runtime& runtime) {
  if (!runtime.comm.is_root()) return;
  recorder.Message(
      absl::StrFormat("%s: %d bytes in %d windows", name, windows.bytes(), windows.size()));
}

// In the folder of the recorder, with the one seed of the configuration.
StatusOr<TrainResult> TrainSeed(const proto::LanguageModelConfig& config, RunRecorder& recorder,
                                Runtime& runtime) {
  const uint64_t seed = internal::SeedOf(config.trainer());
  recorder.set_words(
      {.unit = "tokens", .advice = "try      echo \"Once\" | lm_train generate --run_dir"});
  LanguageModelTaskOptions options = LanguageModelTaskOf(config, seed, runtime.device);
  options.files = {{"config.textproto", PrintConfig(config, ConfigFormat::kFull)}};
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModelTask> task,
                      LanguageModelTask::Create(options, runtime.comm));
  Report("train", task->train(), recorder, runtime);
  if (task->dev() != nullptr) Report("dev", *task->dev(), recorder, runtime);
  DT_RETURN_IF_ERROR(
      internal::CheckMetricNames(config.trainer(), LanguageModelMetricNames(), "texts are"));
  const GptOptions& model = task->model().options();
  const internal::TextTraining training{
      .task = *task,
      .updates_per_epoch = task->updates_per_epoch(),
      .lengths = TextLengthsOf(task->train().lengths()),
      .main_metric = task->dev() == nullptr ? "" : "loss",
      .seed = seed,
      .attention = {.hidden_size = model.hidden_size,
                    .num_heads = model.num_heads,
                    .dropout = model.attention_dropout,
                    .causal = true},
      .costs = CostsOfModel(model),
      .warm_up = internal::WarmUpOf(task->model(), runtime.device)};
  return internal::TrainOnTexts(internal::TextSectionsOf(config), training, recorder, runtime);
}

// Backward completes the last norm, the layers from last to first, and the tables. The product with
// the table of words comes first.
GradientShapes GradientsOf(const GptOptions& model) {
  GradientShapes gradients;
  const int64_t words = model.vocab_size * model.hidden_size;
  gradients.push_back({.columns = 0, .product = static_cast<double>(words)});
  AddNorm(model.hidden_size, gradients);
  for (int i = 0; i < model.num_layers; ++i) {
    AddLayer(LayerOptionsOf(model), gradients);
  }
  AddTable(model.max_positions, model.hidden_size, gradients);
  AddTable(model.vocab_size, model.hidden_size, gradients);
  return gradients;
}

StatusOr<Workload> WorkloadOf(const proto::LanguageModelConfig& config,
                              const WorkloadOptions& options) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  const internal::TextSections sections = internal::TextSectionsOf(config);
  DT_RETURN_IF_ERROR(internal::CheckTextWorkload(sections, options));
  const GptOptions model = GptOptionsOf(config.model());
  return internal::MakeTextWorkload(sections,
                                    {.row = "window",
                                     .vocab_size = model.vocab_size,
                                     .hidden_size = model.hidden_size,
                                     .parameters = CountParameters(model),
                                     .gradients = GradientsOf(model),
                                     .costs = CostsOfModel(model)},
                                    options);
}

}  // namespace

Status TrainLanguageModel(const proto::LanguageModelConfig& config, Runtime& runtime) {
  DT_RETURN_IF_ERROR(internal::CheckSettingsAgree(internal::AgreedSettings(config), runtime));
  return internal::TrainSeeds("lm_train", config, TrainSeed, runtime);
}

const TaskProgram& LanguageModelProgram() {
  static const TaskProgram program = MakeTaskProgram<proto::LanguageModelConfig>(
      {.name = "lm_train",
       .summary = "trains a GPT on the bytes of texts, and lets it write",
       .example = "lm_train train data.train=novel.txt --run_dir=runs/novel",
       .defaults = LanguageModelDefaults(),
       .most_used = {"data.train", "data.dev", "data.max_length", "model.num_layers",
                     "model.hidden_size", "trainer.max_epochs", "trainer.batch_size",
                     "optimizer.learning_rate", "trainer.precision", "run.run_dir"},
       .commands = {{.name = "train",
                     .summary = "trains a language model",
                     .validate = ValidateLanguageModelConfig,
                     .run = TrainLanguageModel},
                    {.name = "eval",
                     .summary = "measures a trained model on texts",
                     .validate = ValidateLanguageModelUse,
                     .run = EvaluateLanguageModel},
                    {.name = "generate",
                     .summary = "continues texts with a trained model",
                     .validate = ValidateLanguageModelUse,
                     .run = GenerateTexts}},
       .workload = WorkloadOf,
       .checkpoint_files = {"tokens.txt"},
       .export_to_hugging_face = ExportLanguageModelToHuggingFace,
       .exported_classes = "of language models GPT2LMHeadModel"});
  return program;
}

}  // namespace dtrain
