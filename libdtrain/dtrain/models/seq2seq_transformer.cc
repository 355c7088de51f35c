// seq2seq_transformer.cc - wires embeddings, stacks and loss, forward and in mirror order.
// order. SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/seq2seq_transformer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dtrain/ops/cast.h"
#include "dtrain/ops/cross_entropy.h"

namespace dtrain {
namespace {

// 0, 1, ... within each sequence.
std::vector<int32_t> PositionsOf(const Sequences& sequences) {
  std::vector<int32_t> positions(static_cast<size_t>(sequences.tokens()));
  for (int64_t s = 0; s < sequences.count(); ++s) {
    for (int32_t t = sequences.begin(s); t < sequences.end(s); ++t) {
      positions[static_cast<size_t>(t)] = t - sequences.begin(s);
    }
  }
  return positions;
}

}  // namespace

Seq2SeqTransformer::Seq2SeqTransformer(const Seq2SeqOptions& options) : options_(options) {
  DT_CHECK(!options.tie_output || options.vocab_size > 1);
  const Scope model(parameters_, "model");
  // N(0, 1 / hidden), so that rows scaled by sqrt(hidden) have variance 1.
  Initializer initializer =
      Initializer::Normal(1.0f / std::sqrt(static_cast<float>(options.hidden_size)));
  initializer.zero_row = options.pad_id();
  const Shape table{options.vocab_size, options.hidden_size};
  if (options.tie_embeddings) {
    encoder_.embedding = decoder_.embedding = &(model / "shared").Add("weight", table, initializer);
  } else {
    encoder_.embedding = &(model / "encoder.embed_tokens").Add("weight", table, initializer);
  }
  AddStack("encoder", options.encoder_layers, /*decoder=*/false, encoder_);
  if (!options.tie_embeddings) {
    decoder_.embedding = &(model / "decoder.embed_tokens").Add("weight", table, initializer);
  }
  AddStack("decoder", options.decoder_layers, /*decoder=*/true, decoder_);
  output_weight_ =
      options.tie_output
          ? decoder_.embedding
          : &Scope(parameters_, "lm_head").Add("weight", table, Initializer::XavierUniform());
  output_ = std::make_unique<OutputLoss>(
      *output_weight_, CrossEntropyOptions{.label_smoothing = options.label_smoothing});
}

void Seq2SeqTransformer::AddStack(const std::string& name, int layers, bool decoder, Stack& stack) {
  const Scope scope = Scope(parameters_, "model") / name;
  stack.embedding_site = scope.NewSite();
  for (int i = 0; i < layers; ++i) {
    stack.layers.push_back(std::make_unique<TransformerLayer>(
        scope / ("layers." + std::to_string(i)),
        TransformerLayerOptions{.hidden_size = options_.hidden_size,
                                .ffn_size = options_.ffn_size,
                                .num_heads = options_.num_heads,
                                .activation = options_.activation,
                                .pre_norm = options_.pre_norm,
                                .layer_norm_epsilon = options_.layer_norm_epsilon,
                                .dropout = options_.dropout,
                                .attention_dropout = options_.attention_dropout,
                                .activation_dropout = options_.activation_dropout,
                                .decoder = decoder}));
  }
  if (options_.pre_norm) {
    stack.final_norm = std::make_unique<LayerNorm>(scope, "layer_norm", options_.hidden_size,
                                                   options_.layer_norm_epsilon);
  }
}

void Seq2SeqTransformer::Allocate(const Device& device, DType compute_type, uint64_t seed) {
  parameters_.Allocate(device, compute_type, seed);
  position_arena_ = Arena::Create(device, "positions");
  position_table_ =
      Empty(*position_arena_, {options_.max_positions, options_.hidden_size}, compute_type);
  Stream stream(device);
  FillSinusoids(position_table_, stream);
  stream.Synchronize();
}

EmbeddingOptions Seq2SeqTransformer::EmbedOptions(const Stack& stack, Context& ctx) const {
  return {.scale = std::sqrt(static_cast<float>(options_.hidden_size)),
          .zero_id = options_.pad_id(),
          .dropout = ctx.MakeDropout(options_.dropout, stack.embedding_site)};
}

Tensor Seq2SeqTransformer::Embed(Stack& stack, const std::vector<int32_t>& ids,
                                 const std::vector<int32_t>& positions, Context& ctx) {
  const Tensor id_tensor = ctx.Upload(ids);
  const Tensor position_tensor = ctx.Upload(positions);
  Tensor embedded = ctx.Empty({id_tensor.dim(0), options_.hidden_size});
  EmbeddingForward(id_tensor, position_tensor, stack.embedding->value(), position_table_,
                   EmbedOptions(stack, ctx), embedded, ctx.stream());
  if (ctx.training()) {
    stack.ids = id_tensor;
    stack.positions = position_tensor;
  }
  return embedded;
}

Tensor Seq2SeqTransformer::Run(Stack& stack, const std::vector<int32_t>& ids,
                               const LayerInputs& inputs, Context& ctx) {
  DT_CHECK_EQ(static_cast<int64_t>(ids.size()), inputs.sequences.tokens());
  DT_CHECK_LE(inputs.sequences.max_length(), options_.max_positions)
      << "a sequence is longer than max_positions";
  Tensor x = Embed(stack, ids, PositionsOf(inputs.sequences), ctx);
  for (const auto& layer : stack.layers) x = layer->Forward(x, inputs, ctx);
  return stack.final_norm ? stack.final_norm->Forward(x, ctx) : x;
}

Tensor Seq2SeqTransformer::Encode(const std::vector<int32_t>& ids, const Sequences& sequences,
                                  Context& ctx) {
  return Run(encoder_, ids, {sequences, Tensor(), sequences}, ctx);
}

Tensor Seq2SeqTransformer::Decode(const TranslationBatch& batch, const Tensor& memory,
                                  Context& ctx) {
  return Run(decoder_, batch.decoder_ids, {batch.target, memory, batch.source}, ctx);
}

Tensor Seq2SeqTransformer::Logits(const TranslationBatch& batch, Context& ctx) {
  return output_->Logits(Decode(batch, Encode(batch.source_ids, batch.source, ctx), ctx), ctx);
}

LossSums Seq2SeqTransformer::Forward(const TranslationBatch& batch, float loss_scale, Context& ctx,
                                     std::vector<int32_t>* predictions) {
  if (batch.target.count() == 0) return {};
  const Tensor memory = Encode(batch.source_ids, batch.source, ctx);
  const Tensor hidden = Decode(batch, memory, ctx);
  if (ctx.training()) {
    memory_ = memory;
    source_ = batch.source;
    target_ = batch.target;
  }
  Tensor predicted;
  if (predictions != nullptr) predicted = ctx.Empty({hidden.dim(0)}, DType::kInt32);
  const LossSums sums =
      output_->Forward(hidden, ctx.Upload(batch.target_ids), loss_scale, predicted, ctx);
  if (predictions != nullptr) {
    const int32_t* const best = predicted.data<int32_t>();
    predictions->assign(best, best + predicted.dim(0));
  }
  return sums;
}

void Seq2SeqTransformer::Backward(Context& ctx) {
  if (!memory_) {  // an empty micro-batch adds nothing, but its gradients are as ready as any
    FinishGradients();
    return;
  }
  Tensor d_memory = ctx.Empty(memory_.shape());
  Zero(d_memory, ctx.stream());
  Tensor gradient = output_->Backward();
  if (!options_.tie_output) output_weight_->GradientReady();
  BackwardStack(decoder_, std::move(gradient), {target_, memory_, source_}, d_memory, ctx);
  if (!options_.tie_embeddings) decoder_.embedding->GradientReady();
  memory_ = Tensor();
  Tensor none;
  BackwardStack(encoder_, std::move(d_memory), {source_, Tensor(), source_}, none, ctx);
  encoder_.embedding->GradientReady();
}

void Seq2SeqTransformer::FinishGradients() {
  for (const Parameter* parameter : parameters_.in_backward_order()) parameter->GradientReady();
}

void Seq2SeqTransformer::BackwardStack(Stack& stack, Tensor gradient, const LayerInputs& inputs,
                                       Tensor& d_memory, Context& ctx) {
  if (stack.final_norm) {
    gradient = stack.final_norm->Backward(gradient, Tensor(), ctx);
    stack.final_norm->Release();
  }
  for (size_t i = stack.layers.size(); i-- > 0;) {
    gradient = stack.layers[i]->Backward(gradient, inputs, d_memory, ctx);
  }
  Tensor none;
  Tensor& d_table = stack.embedding->gradient();
  EmbeddingBackward(gradient, stack.ids, stack.positions, EmbedOptions(stack, ctx), d_table, none,
                    ctx.stream());
  stack.ids = stack.positions = Tensor();
  // As an output class <pad> has a gradient too; its row stays zero.
  Tensor pad_row = d_table.Rows(options_.pad_id(), options_.pad_id() + 1);
  Zero(pad_row, ctx.stream());
}

DecoderState Seq2SeqTransformer::StartDecoding(const Tensor& memory,
                                               const Sequences& memory_sequences, int64_t slots,
                                               Context& ctx) {
  DecoderState state{.layers = std::vector<LayerCache>(decoder_.layers.size()),
                     .memory_sequences = memory_sequences};
  for (size_t i = 0; i < decoder_.layers.size(); ++i) {
    LayerCache& cache = state.layers[i];
    cache.self.keys_values = ctx.Empty({slots, 2 * options_.hidden_size});
    decoder_.layers[i]->StartDecoding(memory, cache, ctx);
  }
  return state;
}

Tensor Seq2SeqTransformer::Step(const std::vector<int32_t>& ids, int32_t position,
                                const StepInputs& inputs, DecoderState& state, Context& ctx) {
  DT_CHECK_LT(position, options_.max_positions);
  Tensor x = Embed(decoder_, ids, std::vector<int32_t>(ids.size(), position), ctx);
  for (size_t i = 0; i < decoder_.layers.size(); ++i) {
    x = decoder_.layers[i]->ForwardStep(x, inputs, state.layers[i], ctx);
  }
  if (decoder_.final_norm) x = decoder_.final_norm->Forward(x, ctx);
  Tensor logits = output_->Logits(x, ctx);
  LogSoftmax(logits, logits, ctx.stream());
  return logits;
}

}  // namespace dtrain
