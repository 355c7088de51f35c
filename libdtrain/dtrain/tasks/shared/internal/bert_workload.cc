// bert_workload.cc - shapes from files, and costs of a head on an encoder.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/bert_workload.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/bert.pb.h"
#include "dtrain/optimizer.pb.h"
#include "dtrain/run.pb.h"
#include "dtrain/tasks/shared/bert_memory.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/memory_options.h"
#include "dtrain/tasks/shared/internal/workload_checks.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain::internal {
namespace {

bool IsHere(const std::string& path) {
  std::error_code error;
  return !path.empty() && std::filesystem::exists(path, error);
}

// Checks that the configuration has a shape where no file gives it.
Status CheckOwnShape(const proto::BertModelConfig& model, std::vector<std::string>& notes) {
  const std::string& path = model.pretrained();
  const bool has_shape = model.has_num_layers() && model.has_hidden_size() && model.has_ffn_size();
  if (!has_shape && !IsHere(path)) {
    return UsageError(absl::StrFormat(
        "model.pretrained: %s is not on this machine, and decides the shape: copy its config.json "
        "there, or give model.num_layers, model.hidden_size, model.ffn_size and model.num_heads",
        path));
  }
  notes.push_back(
      absl::StrFormat("model.pretrained: no config.json is at %s; the shape is the "
                      "configuration's, %d layers of %d",
                      path, model.num_layers(), model.hidden_size()));
  return OkStatus();
}

// Counts the pieces of a vocabulary.
StatusOr<int64_t> CountPieces(const std::string& path) {
  DT_ASSIGN_OR_RETURN(const bool is_word_piece, HoldsWordPiece(path));
  if (!is_word_piece) {
    DT_ASSIGN_OR_RETURN(const TextTokenizer tokenizer, TextTokenizer::Load(path));
    return tokenizer.vocab_size();
  }
  DT_ASSIGN_OR_RETURN(const std::string pieces, ReadVocabularyText(path));
  const int64_t lines = std::count(pieces.begin(), pieces.end(), '\n');
  return pieces.ends_with('\n') ? lines : lines + 1;
}

}  // namespace

Status CompleteShape(bool found_shape, const std::string& vocabulary, proto::BertModelConfig& model,
                     std::vector<std::string>& notes) {
  if (!model.pretrained().empty() && !found_shape) DT_RETURN_IF_ERROR(CheckOwnShape(model, notes));
  if (model.vocab_size() > 0) return OkStatus();
  if (IsHere(vocabulary)) {
    DT_ASSIGN_OR_RETURN(const int64_t pieces, CountPieces(vocabulary));
    model.set_vocab_size(static_cast<int32_t>(pieces));
    return OkStatus();
  }
  model.set_vocab_size(static_cast<int32_t>(BertOptions().vocab_size));
  notes.push_back(absl::StrCat(
      "data.vocabulary: ", vocabulary.empty() ? "not set" : absl::StrCat("no file ", vocabulary),
      "; taken for BERT's ", model.vocab_size(), " pieces, model.vocab_size says otherwise"));
  return OkStatus();
}

Status CheckTextWorkload(const TextSections& sections, const WorkloadOptions& options) {
  if (options.target_length != 0.0) {
    return UsageError("--target_length is of nmt_train's sentences; use --source_length");
  }
  DT_RETURN_IF_ERROR(CheckLengths(options, sections.max_length, "data.max_length"));
  DT_RETURN_IF_ERROR(CheckBatchSize("trainer.batch_size", sections.trainer.batch_size()));
  return CheckBatchSize("trainer.tokens_per_batch", sections.trainer.tokens_per_batch());
}

TextModel TextModelOf(const BertHead& head) {
  return {.row = head.row,
          .vocab_size = head.encoder.vocab_size,
          .hidden_size = head.encoder.hidden_size,
          .parameters = head.parameters,
          .gradients = GradientsOf(head),
          .costs = head.costs};
}

StatusOr<Workload> MakeTextWorkload(const TextSections& sections, const TextModel& model,
                                    const WorkloadOptions& options) {
  const proto::BertTrainerConfig& trainer = sections.trainer;
  const int64_t longest = sections.max_length;
  const TextLengths lengths{
      .mean = options.source_length > 0.0 ? options.source_length : static_cast<double>(longest),
      .deviation = options.length_deviation,
      .longest = longest};
  const BertBatch batch = MicroBatchOf(trainer, options.ranks, lengths);
  const BertBatch usual = MicroBatchOf(
      trainer, options.ranks, {.mean = lengths.mean, .deviation = 0.0, .longest = longest});
  Workload workload{
      .trainer = BertTrainerOf(trainer, sections.optimizer, model.hidden_size,
                               {.run_dir = sections.run.run_dir()}),
      .memory = MemoryOptionsOf(trainer, sections.optimizer,
                                BertContextOf(trainer, /*seed=*/1, /*rank=*/0)),
      .vocab_size = model.vocab_size,
      .hidden_size = model.hidden_size,
      .parameters = model.parameters,
      .gradients = model.gradients,
      .costs = model.costs(batch),
      .flops_per_token = FlopsPerToken(model.costs(usual), usual.tokens),
      .tokens_per_batch =
          trainer.tokens_per_batch() > 0
              ? trainer.tokens_per_batch()
              : std::llround(static_cast<double>(trainer.batch_size()) * lengths.mean),
      .texts_per_batch = BertBatchOf(trainer).samples_per_batch,
      .sequences = absl::StrFormat("%ss of %.1f tokens", model.row, lengths.mean),
      .micro_batch =
          absl::StrFormat("%d %ss of %d tokens together", batch.texts, model.row, batch.tokens),
      .planned_batch = TokensText(batch),
      .micro_batch_counts = {{"tokens", batch.tokens}, {"texts", batch.texts}}};
  DT_ASSIGN_OR_RETURN(workload.device, PlannedDevice(sections.run, workload.memory));
  // A text alone may be longer than an evaluation's batches.
  const int64_t tokens = std::max(trainer.eval_batch_tokens(), longest);
  const auto texts = static_cast<double>(tokens) / lengths.mean;
  workload.evaluation_bytes =
      model.costs({.tokens = tokens, .texts = std::max<int64_t>(std::llround(texts), 1)})
          .peak_bytes({.compute_type = workload.memory.context.compute_type,
                       .device = workload.device.type,
                       .training = false});
  return workload;
}

}  // namespace dtrain::internal
