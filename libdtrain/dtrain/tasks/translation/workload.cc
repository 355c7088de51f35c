// workload.cc - costs of the model, of a beam search and of an update.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/workload.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/models/beam_search.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/tasks/shared/internal/low_rank.h"
#include "dtrain/tasks/shared/internal/workload_checks.h"
#include "dtrain/tasks/translation/config.h"
#include "dtrain/tasks/translation/internal/marian_folder.h"
#include "dtrain/tasks/translation/memory_plan.h"
#include "dtrain/tasks/translation/options.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"

namespace dtrain {
namespace {

constexpr double kDefaultLength = 32.0;  // tokens of a sentence

// Takes vocabulary and lengths from the prepared corpus where there is one. Without one the
// vocabulary is that of the published model `pretrained`, unless this is "".
Status ReadCorpus(const proto::DataConfig& data, const std::string& pretrained,
                  Seq2SeqOptions& model, MeanLengths& lengths) {
  model.vocab_size = data.vocab_size();
  if (!pretrained.empty()) {
    DT_ASSIGN_OR_RETURN(const TranslationTokenizer tokenizer,
                        TranslationTokenizer::Load(pretrained));
    TakeVocabulary(tokenizer, model);
  }
  lengths = {kDefaultLength, kDefaultLength};
  const std::string path = data.prepared() + "/train.bin";
  if (data.prepared().empty()) return OkStatus();
  if (!std::filesystem::exists(path)) {
    // A run with raw text prepares the folder first.
    if (HasTrainingText(data)) return OkStatus();
    return UsageError(absl::StrCat("data.prepared: ", data.prepared(),
                                   " holds no train.bin; give what dtrain prepare wrote, or leave "
                                   "it out for an estimate of texts of ordinary length"));
  }
  DT_ASSIGN_OR_RETURN(const TokenShard shard, TokenShard::Open(path, {.verify_checksum = false}));
  if (pretrained.empty()) model.vocab_size = shard.info().vocab_size;
  lengths = MeanLengthsOf(shard);
  return OkStatus();
}

// Caches of keys and values where a batch of the beam search fills all its places, and the logits
// of its rows.
int64_t BeamSearchBytes(const proto::TrainerConfig& trainer, const Seq2SeqOptions& model,
                        DType compute_type) {
  const int64_t tokens = trainer.eval_batch_tokens();
  const int64_t places = trainer.beam_size() * tokens * BeamSearchOptions::kPlacesPerToken;
  const int64_t rows = places / (trainer.beam_extra_length() + 2);
  const auto size = static_cast<int64_t>(SizeOf(compute_type));
  return model.decoder_layers * (places + tokens) * 2 * model.hidden_size * size +
         rows * model.vocab_size * static_cast<int64_t>(sizeof(float));
}

// The larger of the loss, whose batches are as long on their longer side, and of translating.
int64_t EvaluationBytes(const proto::TrainerConfig& trainer, const Seq2SeqOptions& model,
                        const MeanLengths& lengths, const ActivationOptions& activations) {
  const auto tokens = static_cast<double>(trainer.eval_batch_tokens());
  const double pairs = tokens / std::max(lengths.source, lengths.target);
  const Seq2SeqBatch batch{.source_tokens = std::llround(std::ceil(pairs * lengths.source)),
                           .target_tokens = std::llround(std::ceil(pairs * lengths.target)),
                           .source_length = lengths.source,
                           .target_length = lengths.target};
  const int64_t loss = PeakActivationBytes(model, batch, activations);
  if (trainer.beam_size() == 0) return loss;
  return std::max(loss, BeamSearchBytes(trainer, model, activations.compute_type));
}

GradientShapes GradientsOf(const Seq2SeqOptions& model) {
  GradientShapes gradients;
  if (model.output_bias) AddVector(model.vocab_size, gradients);
  // The gradient of a tied projection is complete with the embeddings it is tied to.
  const int64_t table = model.vocab_size * model.hidden_size;
  gradients.push_back(
      {.columns = model.tie_output ? 0 : table, .product = static_cast<double>(table)});
  for (const bool decoder : {true, false}) {
    if (model.pre_norm) AddNorm(model.hidden_size, gradients);
    const int layers = decoder ? model.decoder_layers : model.encoder_layers;
    for (int i = 0; i < layers; ++i) {
      AddLayer(LayerOptionsOf(model, decoder), gradients);
    }
    if (!model.tie_embeddings) {
      AddTable(decoder ? model.vocab_size : model.source_vocab(), model.hidden_size, gradients);
    }
  }
  if (model.tie_embeddings) AddTable(model.vocab_size, model.hidden_size, gradients);
  if (model.low_rank.rank > 0) Freeze(0, CountParameters(model).adapters, gradients);
  return gradients;
}

}  // namespace

StatusOr<Workload> TranslationWorkload(const proto::NmtConfig& given,
                                       const WorkloadOptions& options) {
  proto::NmtConfig config = given;
  if (!given.model().pretrained().empty()) {
    DT_RETURN_IF_ERROR(internal::ReadMarianFolder(given.model().pretrained(), config));
  }
  DT_RETURN_IF_ERROR(ValidateWithoutData(config));
  const MemoryOptions memory = MemoryOptionsOf(config);
  DT_ASSIGN_OR_RETURN(const Device device, internal::PlannedDevice(config.run(), memory));
  if (options.length_deviation != 0.0) {
    return UsageError("--length_deviation is of a BERT's texts, not of nmt_train's sentences");
  }
  DT_RETURN_IF_ERROR(
      internal::CheckLengths(options, config.model().max_positions(), "model.max_positions"));
  const int64_t tokens_per_batch = config.trainer().tokens_per_batch();
  DT_RETURN_IF_ERROR(internal::CheckBatchSize("trainer.tokens_per_batch", tokens_per_batch));
  Seq2SeqOptions model = ModelOptionsOf(config.model());
  DT_RETURN_IF_ERROR(internal::CheckTargets(model));
  MeanLengths lengths;
  DT_RETURN_IF_ERROR(ReadCorpus(config.data(), given.model().pretrained(), model, lengths));
  if (options.source_length > 0.0) lengths.source = options.source_length;
  if (options.target_length > 0.0) lengths.target = options.target_length;
  const Seq2SeqBatch batch = MicroBatchOf(config.trainer(), options.ranks, lengths);
  const ModelCosts costs = CostsOf(model, batch);
  const ActivationOptions activations{.compute_type = memory.context.compute_type,
                                      .device = device.type};
  ActivationOptions evaluation = activations;
  evaluation.training = false;
  const int64_t logits = LogitsBytes(model, batch, activations);
  return Workload{
      .device = device,
      .trainer = TrainerOptionsOf(config, config.run().run_dir(), /*updates_per_epoch=*/1),
      .memory = memory,
      .vocab_size = model.vocab_size,
      .hidden_size = model.hidden_size,
      .parameters = CountParameters(model),
      .gradients = GradientsOf(model),
      .costs = costs,
      .flops_per_token = internal::FlopsPerToken(costs, batch.target_tokens),
      .tokens_per_batch = tokens_per_batch,
      .evaluation_bytes = EvaluationBytes(config.trainer(), model, lengths, evaluation),
      .position_bytes = static_cast<int64_t>(SizeOf(activations.compute_type)) *
                        model.max_positions * model.hidden_size,
      .token = "target token",
      .sequences = absl::StrFormat("sentences of %.1f source and %.1f target tokens",
                                   lengths.source, lengths.target),
      .micro_batch =
          absl::StrFormat("%d source and %d target tokens (logits %s)", batch.source_tokens,
                          batch.target_tokens, FormatMebibytes(logits)),
      .planned_batch = TokensText(batch),
      .micro_batch_counts = {{"source_tokens", batch.source_tokens},
                             {"target_tokens", batch.target_tokens}},
      .activation_parts = {{"logits", logits}}};
}

}  // namespace dtrain
