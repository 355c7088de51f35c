// seq2seq_costs.cc - sums over the two stacks, the embeddings and the loss.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/seq2seq_costs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dtrain/models/internal/output_loss_blocks.h"

namespace dtrain {
namespace {

using Block = ByteMeter::Block;

TransformerStackOptions StackOf(const Seq2SeqOptions& options, bool decoder) {
  return {.layer = LayerOptionsOf(options, decoder),
          .num_layers = decoder ? options.decoder_layers : options.encoder_layers,
          .backward_follows = decoder};
}

// The input sizes of the encoder's and the decoder's layers.
LayerBatch EncoderBatch(const Seq2SeqBatch& batch) {
  const auto tokens = static_cast<double>(batch.source_tokens);
  return {.tokens = tokens, .pairs = tokens * batch.source_length};
}
LayerBatch DecoderBatch(const Seq2SeqBatch& batch) {
  const auto tokens = static_cast<double>(batch.target_tokens);
  return {.tokens = tokens,
          .pairs = tokens * (batch.target_length + 1.0) / 2.0,
          .memory_tokens = static_cast<double>(batch.source_tokens),
          .memory_pairs = tokens * batch.source_length};
}

// A stack with its embedding and final norm, as Seq2SeqTransformer runs it.
class StackWithEnds {
 public:
  StackWithEnds(const Seq2SeqOptions& options, const Seq2SeqBatch& batch, bool decoder,
                const ActivationOptions& activations, ByteMeter& meter)
      : tokens_(decoder ? batch.target_tokens : batch.source_tokens),
        hidden_size_(options.hidden_size),
        pre_norm_(options.pre_norm),
        rank_(options.low_rank.rank),
        dtype_(activations.compute_type),
        training_(activations.training),
        meter_(meter),
        layers_(StackOf(options, decoder), tokens_, decoder ? batch.source_tokens : 0, activations,
                meter) {}

  Block Forward() {
    Block x = Hidden();
    x = layers_.Forward(x);
    if (!pre_norm_) return x;
    Block y = Hidden();
    norm_ = {meter_.Take(tokens_, DType::kFloat32), meter_.Take(tokens_, DType::kFloat32), x};
    if (!training_) norm_ = {};
    return y;
  }

  // At most what backward takes: one adapter at a time has rows of its rank, which here are kept
  // all the while.
  void Backward(Block gradient) {
    const Block low = rank_ > 0 ? meter_.Take(tokens_ * rank_, dtype_) : nullptr;
    if (pre_norm_) {
      gradient = Hidden();
      norm_ = {};
    }
    gradient = layers_.Backward(std::move(gradient));
  }

  Block Hidden() { return meter_.Take(tokens_ * hidden_size_, dtype_); }

 private:
  int64_t tokens_;
  int64_t hidden_size_;
  bool pre_norm_;
  int rank_;  // of adapters
  DType dtype_;
  bool training_;
  ByteMeter& meter_;
  StackBlocks layers_;
  std::array<Block, 3> norm_;  // statistics and input of the final norm
};

// The block of Seq2SeqTransformer::Upload: ids and positions of both sides, targets, offsets and,
// while training, row numbers.
Block TakeInputs(const Seq2SeqBatch& batch, bool training, ByteMeter& meter) {
  const std::array<int64_t, 9> counts = {batch.source_tokens,
                                         batch.source_tokens,
                                         batch.target_tokens,
                                         batch.target_tokens,
                                         batch.target_tokens,
                                         batch.sentences() + 1,
                                         batch.sentences() + 1,
                                         training ? batch.source_tokens : 0,
                                         training ? batch.target_tokens : 0};
  return meter.Take(Context::UploadedElements(counts), DType::kInt32);
}

}  // namespace

ModelParameters CountParameters(const Seq2SeqOptions& options) {
  const LayerParameters encoder = CountParameters(LayerOptionsOf(options, /*decoder=*/false));
  const LayerParameters decoder = CountParameters(LayerOptionsOf(options, /*decoder=*/true));
  const auto in_layers = [&](int64_t LayerParameters::*kind) {
    return options.encoder_layers * encoder.*kind + options.decoder_layers * decoder.*kind;
  };
  const int64_t table = options.vocab_size * options.hidden_size;
  const int64_t source_table = options.source_vocab() * options.hidden_size;
  ModelParameters parameters = {
      .embeddings = table + (options.tie_embeddings ? 0 : source_table),
      .attention = in_layers(&LayerParameters::attention),
      .feed_forward = in_layers(&LayerParameters::feed_forward),
      .layer_norm = in_layers(&LayerParameters::layer_norm) +
                    (options.pre_norm ? 2 * 2 * options.hidden_size : 0),
      .output = (options.tie_output ? 0 : table) + (options.output_bias ? options.vocab_size : 0)};
  if (options.low_rank.rank > 0) {
    Seq2SeqTransformer named(options);
    CountAdapters(named.parameters(), parameters);
  }
  return parameters;
}

ModelFlops CountFlops(const Seq2SeqOptions& options, const Seq2SeqBatch& batch, Recompute recompute,
                      int recompute_every) {
  const TransformerStackOptions encoder = StackOf(options, /*decoder=*/false);
  const TransformerStackOptions decoder = StackOf(options, /*decoder=*/true);
  const double encoder_layer = ForwardFlops(encoder.layer, EncoderBatch(batch));
  const double decoder_layer = ForwardFlops(decoder.layer, DecoderBatch(batch));
  const double output = 2.0 * static_cast<double>(batch.target_tokens) *
                        static_cast<double>(options.hidden_size) *
                        static_cast<double>(options.vocab_size);
  ModelFlops flops;
  flops.forward = encoder.num_layers * encoder_layer + decoder.num_layers * decoder_layer + output;
  flops.backward = 2.0 * flops.forward;
  if (options.low_rank.rank > 0) {
    const auto products = [](const TransformerStackOptions& stack, LayerBatch sizes) {
      sizes.pairs = sizes.memory_pairs = 0.0;
      return stack.num_layers * ForwardFlops(stack.layer, sizes);
    };
    flops.backward = BackwardFlopsOfFrozen(
        flops.forward,
        products(encoder, EncoderBatch(batch)) + products(decoder, DecoderBatch(batch)) + output,
        /*head_flops=*/0.0, CountParameters(options).adapters,
        static_cast<double>(std::max(batch.source_tokens, batch.target_tokens)));
  }
  flops.recomputed = RecomputedLayers(encoder, recompute, recompute_every) * encoder_layer +
                     RecomputedLayers(decoder, recompute, recompute_every) * decoder_layer;
  return flops;
}

int64_t PeakActivationBytes(const Seq2SeqOptions& options, const Seq2SeqBatch& batch,
                            const ActivationOptions& activations) {
  if (batch.target_tokens == 0) return 0;
  ByteMeter meter;
  StackWithEnds encoder(options, batch, /*decoder=*/false, activations, meter);
  StackWithEnds decoder(options, batch, /*decoder=*/true, activations, meter);
  const Block inputs = TakeInputs(batch, activations.training, meter);
  Block memory = encoder.Forward();
  Block d_hidden;
  {
    const Block hidden = decoder.Forward();
    if (activations.training) d_hidden = decoder.Hidden();
    const Block predictions =
        activations.training ? nullptr : meter.Take(batch.target_tokens, DType::kInt32);
    internal::RunOutputLoss(batch.target_tokens, options.vocab_size, activations, meter);
  }
  if (!activations.training) return meter.peak();
  Block d_memory = encoder.Hidden();
  decoder.Backward(std::move(d_hidden));
  memory = nullptr;
  encoder.Backward(std::move(d_memory));
  return meter.peak();
}

int64_t LogitsBytes(const Seq2SeqOptions& options, const Seq2SeqBatch& batch,
                    const ActivationOptions& activations) {
  const DType dtype = OutputLoss::LogitsType(activations.compute_type, activations.device);
  const size_t narrow = dtype == activations.compute_type ? 0 : SizeOf(activations.compute_type);
  return internal::LogitsRows(batch.target_tokens, options.vocab_size, activations) *
         options.vocab_size * static_cast<int64_t>(SizeOf(dtype) + narrow);
}

ModelCosts CostsOf(const Seq2SeqOptions& options, const Seq2SeqBatch& batch) {
  const ModelParameters counts = CountParameters(options);
  return {.parameters = counts.total(),
          .trained_parameters = counts.trained(),
          .deepest = std::max(options.encoder_layers, options.decoder_layers),
          .peak_bytes =
              [options, batch](const ActivationOptions& activations) {
                return PeakActivationBytes(options, batch, activations);
              },
          .flops =
              [options, batch](Recompute recompute, int recompute_every) {
                return CountFlops(options, batch, recompute, recompute_every);
              }};
}

}  // namespace dtrain
