// task.cc - feeds the model windows of texts; evaluations are shared among the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/task.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/tasks/language_model/evaluation.h"
#include "dtrain/tasks/language_model/tokens.h"
#include "dtrain/tasks/shared/evaluated_rows.h"

namespace dtrain {
namespace {

// The file of a checkpoint that says what its ids are, and what its contents are.
constexpr char kTokensFile[] = "tokens.txt";
constexpr char kTokens[] = "bytes\n";

StatusOr<TextWindows> ReadWindows(const std::vector<std::string>& paths,
                                  const LanguageModelTaskOptions& options) {
  DT_ASSIGN_OR_RETURN(TextSet set, ReadTexts(paths, options.unit));
  return TextWindows(std::make_shared<const TextSet>(std::move(set)), options.max_length);
}

}  // namespace

StatusOr<LanguageModelData> ReadData(const LanguageModelTaskOptions& options) {
  DT_ASSIGN_OR_RETURN(TextWindows train, ReadWindows(options.train, options));
  LanguageModelData data{.train = std::move(train)};
  if (!options.dev.empty()) {
    DT_ASSIGN_OR_RETURN(data.dev, ReadWindows(options.dev, options));
  } else if (options.hold_out > 0.0) {
    const double share = options.hold_out * static_cast<double>(data.train.size());
    const int64_t count = std::max<int64_t>(std::llround(share), 1);
    if (count >= data.train.size()) {
      return DataError(
          absl::StrFormat("%s: %d windows are too few to hold some out; give more text, a smaller "
                          "data.max_length, or data.dev",
                          absl::StrJoin(options.train, ", "), data.train.size()));
    }
    data.dev = data.train.TakeLast(count);
  }
  return data;
}

StatusOr<std::unique_ptr<LanguageModelTask>> LanguageModelTask::Create(
    const LanguageModelTaskOptions& options, Communicator& comm) {
  DT_RETURN_IF_ERROR(CheckComputeType(options.compute_type, options.device));
  if (options.max_length > options.model.max_positions) {
    return UsageError(absl::StrFormat("data.max_length (%d) exceeds the model's %d positions",
                                      options.max_length, options.model.max_positions));
  }
  DT_ASSIGN_OR_RETURN(LanguageModelData data, ReadData(options));
  LanguageModelTaskOptions fitted = options;
  fitted.model.vocab_size = kTokenVocabulary;
  fitted.sampling.end_id = kEndOfText;
  std::unique_ptr<LanguageModelTask> task(new LanguageModelTask(fitted, std::move(data), comm));
  DT_RETURN_IF_ERROR(task->Start({.path = absl::StrJoin(options.train, ", "),
                                  .name = "windows",
                                  .lengths = task->train().lengths(),
                                  .batch = options.batch,
                                  .micro_batch_tokens = options.micro_batch_tokens}));
  task->model().Allocate(options.device, options.compute_type, options.seed);
  return task;
}

LanguageModelTask::LanguageModelTask(const LanguageModelTaskOptions& options,
                                     LanguageModelData data, Communicator& comm)
    : WalkedTask(options.model, comm), options_(options), data_(std::move(data)) {}

double LanguageModelTask::losses_per_update() const {
  return static_cast<double>(data_.train.tokens()) / static_cast<double>(updates_per_epoch());
}

StatusOr<EvaluationResult> LanguageModelTask::Evaluate(Context& ctx) {
  if (!data_.dev) return EvaluationResult();
  EvaluationResult result =
      EvaluateWindows(model(), *data_.dev, options_.eval_batch_tokens, comm(), ctx);
  if (comm().is_root()) {
    result.samples.push_back(SampleOf(model(), *data_.dev, options_.sampling, ctx));
  }
  return result;
}

StatusOr<EvaluationResult> LanguageModelTask::EvaluateSample(Context& ctx) {
  const std::vector<uint32_t> rows = TrainingSample(data_.train.size(), data_.dev->size());
  return EvaluationResult{
      .metrics = {{"loss", LossOfWindows(model(), data_.train, rows, options_.eval_batch_tokens,
                                         comm(), ctx)}}};
}

Identity LanguageModelTask::identity() const {
  const GptOptions& model = options_.model;
  const auto describe = [](const char* name, const TextWindows& windows) {
    return absl::StrFormat("%s texts %d\n%s crc32c %08x\n%s windows %d of %d tokens\n", name,
                           windows.set().texts.size(), name, windows.set().crc, name,
                           windows.size(), windows.tokens());
  };
  return IdentityOf(
      absl::StrFormat("%smax_length %d\n", describe("train", data_.train), options_.max_length),
      data_.dev ? describe("dev", *data_.dev) : "",
      absl::StrFormat("num_heads %d\nactivation %s\nlayer_norm_epsilon %g\n", model.num_heads,
                      ToAbsl(Name(model.activation)), model.layer_norm_epsilon));
}

CheckpointContents LanguageModelTask::checkpoint() const {
  std::vector<NamedFile> files = options_.files;
  files.push_back({kTokensFile, kTokens});
  return ContentsOf(std::move(files), {kTokensFile});
}

}  // namespace dtrain
