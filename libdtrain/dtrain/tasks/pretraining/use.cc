// use.cc - measures a pre-trained model on texts.
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/printable.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/launch/internal/print_on_root.h"
#include "dtrain/nn/context.h"
#include "dtrain/tasks/pretraining/internal/data.h"
#include "dtrain/tasks/pretraining/internal/trained_pretraining.h"
#include "dtrain/tasks/pretraining/program.h"
#include "dtrain/tasks/pretraining/task.h"
#include "dtrain/tasks/shared/internal/metrics_text.h"
#include "dtrain/tasks/shared/internal/trained_run.h"

namespace dtrain {
namespace {

using internal::PrintOnRoot;

}  // namespace

Status EvaluatePretrained(const proto::PretrainConfig& user, Runtime& runtime) {
  DT_ASSIGN_OR_RETURN(internal::TrainedPretraining trained, internal::OpenTrainedPretraining(user));
  internal::EmptyLists(runtime.arguments, {"data.dev"}, trained.config);
  const auto& [checkpoint, config, own] = trained;
  DT_ASSIGN_OR_RETURN(
      const internal::PretrainData data,
      internal::PreparePretrainData(config.data(), internal::CacheOf(user, config, checkpoint),
                                    /*with_train=*/false, runtime));
  if (data.dev.empty()) {
    return UsageError("no texts to evaluate on: the run had none, set data.dev");
  }
  DT_RETURN_IF_ERROR(internal::CheckSameCheckpoint(checkpoint, runtime.comm));
  DT_RETURN_IF_ERROR(PrintOnRoot(runtime, absl::StrCat("model ", checkpoint.path(), "\n")));
  DT_ASSIGN_OR_RETURN(const DocumentShard shard, DocumentShard::Open(data.dev));
  DT_ASSIGN_OR_RETURN(const PretrainingExamples examples,
                      EvaluationExamples(shard, internal::ExamplesOf(config.data(), /*seed=*/1)));
  const DType type = internal::DTypeOf(config.trainer().precision());
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<BertPretraining> model,
                      internal::LoadPretrainingModel(trained, runtime.device, type));
  Context context(runtime.device, {.compute_type = model->parameters().compute_type()});
  const EvaluationResult result = EvaluatePretraining(
      *model, examples, config.trainer().eval_batch_tokens(), runtime.comm, context);
  std::string text = absl::StrFormat("dev (%d examples)", examples.size());
  text += internal::MetricsText(result);
  return PrintOnRoot(runtime, text + "\n");
}

}  // namespace dtrain
