// program.cc - one run a seed: texts, task, trainer.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/program.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/tasks/pretraining/config.h"
#include "dtrain/tasks/pretraining/export.h"
#include "dtrain/tasks/pretraining/head_costs.h"
#include "dtrain/tasks/pretraining/internal/data.h"
#include "dtrain/tasks/pretraining/task.h"
#include "dtrain/tasks/pretraining/warm_up.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/bert_training.h"
#include "dtrain/tasks/shared/internal/bert_workload.h"

namespace dtrain {
namespace {

StatusOr<std::unique_ptr<PretrainingTask>> MakeTask(const proto::PretrainConfig& config,
                                                    uint64_t seed,
                                                    const internal::PretrainData& data,
                                                    Runtime& runtime) {
  const proto::BertTrainerConfig& trainer = config.trainer();
  PretrainingTaskOptions options{.train = data.train,
                                 .dev = data.dev,
                                 .examples = internal::ExamplesOf(config.data(), seed),
                                 .model = EncoderOptionsOf(config.model()),
                                 .batch = BertBatchOf(trainer, seed, config.data().shuffle()),
                                 .micro_batch_tokens = trainer.micro_batch_tokens(),
                                 .device = runtime.device,
                                 .compute_type = internal::DTypeOf(trainer.precision()),
                                 .seed = seed,
                                 .eval_batch_tokens = trainer.eval_batch_tokens()};
  DT_ASSIGN_OR_RETURN(options.files, internal::FilesOf(config, config.data().vocabulary(),
                                                       config.model().pretrained()));
  return PretrainingTask::Create(options, runtime.comm);
}

// That the metrics which steer the run are some that it has.
Status CheckMetrics(const proto::PretrainConfig& config) {
  std::vector<std::string> names = {"loss", "mlm_loss", "ppl", "mlm_accuracy"};
  if (config.data().next_sentence()) {
    names.insert(names.end(), {"nsp_loss", "nsp_accuracy"});
  }
  return internal::CheckMetricNames(config.trainer(), names, "pre-training is");
}

// Beginnings of the names of weights that an encoder trained for something else may lack.
std::vector<std::string> HeadsOf(const EncoderFamily& family) {
  const MaskedWordsForm& head = family.masked_words;
  return {"bert.pooler.", "cls.", std::string(head.dense) + ".", std::string(head.norm) + ".",
          std::string(head.bias)};
}

// In the folder of the recorder, with the one seed of the configuration.
StatusOr<TrainResult> TrainSeed(const proto::PretrainConfig& config, RunRecorder& recorder,
                                Runtime& runtime) {
  const uint64_t seed = internal::SeedOf(config.trainer());
  const std::string cache =
      config.data().cache().empty() ? recorder.path() + "/data" : config.data().cache();
  DT_ASSIGN_OR_RETURN(
      const internal::PretrainData data,
      internal::PreparePretrainData(config.data(), cache, /*with_train=*/true, runtime));
  // What it was trained without is to be given.
  const char* const texts = data.dev.empty() ? "data.dev=FILE " : "";
  recorder.set_words({.unit = "masked tokens",
                      .advice = absl::StrFormat("try      bert_pretrain eval %s--run_dir", texts)});
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<PretrainingTask> task,
                      MakeTask(config, seed, data, runtime));
  const DocumentShard& shard = task->train_shard();
  if (runtime.comm.is_root()) {
    recorder.Message(absl::StrFormat("train: %d documents, %d tokens, %d examples an epoch",
                                     shard.documents(), shard.tokens(),
                                     task->examples_per_epoch()));
  }
  const BertPretrainingOptions model = task->model().options();
  const MaskingOptions masking = internal::ExamplesOf(config.data(), seed).masking;
  return internal::TrainBert(internal::SectionsOf(config),
                             {.task = *task,
                              .updates_per_epoch = task->updates_per_epoch(),
                              .lengths = TextLengthsOfCounts(task->length_counts()),
                              .main_metric = data.dev.empty() ? "" : "loss",
                              .heads = HeadsOf(*model.bert.family),
                              .seed = seed,
                              .costs = PretrainingHead(model, masking).costs,
                              .warm_up =
                                  [&](const BertBatch& batch, const ContextOptions& options) {
                                    return WarmUpSteps(task->model(), MaskedBatchOf(batch, masking),
                                                       runtime.device, options);
                                  }},
                             recorder, runtime);
}

StatusOr<Workload> WorkloadOf(const proto::PretrainConfig& config, const WorkloadOptions& options) {
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  const auto head_of = [](const proto::PretrainConfig& of) -> StatusOr<BertHead> {
    return PretrainingHead(
        {.bert = EncoderOptionsOf(of.model()), .next_sentence = of.data().next_sentence()},
        internal::ExamplesOf(of.data(), /*seed=*/1).masking);
  };
  return internal::BertWorkloadOf(config, options, head_of);
}

}  // namespace

Status TrainPretraining(const proto::PretrainConfig& given, Runtime& runtime) {
  const auto check = [&](const proto::PretrainConfig& config) -> Status {
    DT_RETURN_IF_ERROR(CheckMetrics(config));
    const std::string warning = internal::MaskingWarning(config.data());
    if (runtime.comm.is_root() && !warning.empty()) LogWarning(warning);
    return OkStatus();
  };
  return internal::TrainProgram("bert_pretrain", given, check, TrainSeed, runtime);
}

const TaskProgram& PretrainingProgram() {
  static const TaskProgram program = MakeTaskProgram<proto::PretrainConfig>(
      {.name = "bert_pretrain",
       .summary = "pre-trains BERT on running text",
       .example = "bert_pretrain train data.train=text.txt data.vocabulary=vocab.txt "
                  "trainer.max_steps=100000 --run_dir=runs/bert",
       .defaults = PretrainDefaults(),
       .most_used = {"data.train", "data.dev", "data.vocabulary", "data.max_length",
                     "model.num_layers", "model.hidden_size", "trainer.max_steps",
                     "trainer.batch_size", "optimizer.learning_rate", "run.run_dir"},
       .commands = {{.name = "train",
                     .summary = "trains a model to guess hidden words and next sentences",
                     .validate = ValidatePretrainConfig,
                     .run = TrainPretraining},
                    {.name = "eval",
                     .summary = "measures a trained model on a dev set",
                     .validate = ValidatePretrainUse,
                     .run = EvaluatePretrained}},
       .workload = WorkloadOf,
       .checkpoint_files = {"vocab.txt"},
       .export_to_hugging_face = ExportPretrainingToHuggingFace,
       .exported_classes = "of pre-training BertForPreTraining or, without the next sentence, "
                           "BertForMaskedLM"});
  return program;
}

}  // namespace dtrain
