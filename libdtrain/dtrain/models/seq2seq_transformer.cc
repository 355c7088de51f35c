// seq2seq_transformer.cc - connects embeddings, stacks and loss, forward and in reverse order.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/seq2seq_transformer.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "dtrain/ops/cast.h"
#include "dtrain/ops/cross_entropy.h"

namespace dtrain {

TransformerLayerOptions LayerOptionsOf(const Seq2SeqOptions& options, bool decoder) {
  return {.hidden_size = options.hidden_size,
          .ffn_size = options.ffn_size,
          .num_heads = options.num_heads,
          .activation = options.activation,
          .pre_norm = options.pre_norm,
          .layer_norm_epsilon = options.layer_norm_epsilon,
          .dropout = options.dropout,
          .attention_dropout = options.attention_dropout,
          .activation_dropout = options.activation_dropout,
          .decoder = decoder};
}

Seq2SeqTransformer::Seq2SeqTransformer(const Seq2SeqOptions& options)
    : options_(options),
      positions_({.max_length = options.max_positions, .hidden_size = options.hidden_size}) {
  DT_CHECK(!options.tie_output || options.vocab_size > 1);
  DT_CHECK(!options.tie_embeddings || options.source_vocab() == options.vocab_size)
      << "languages with vocabularies of their own share no table";
  const Scope root = Scope(parameters_, "").Adapted(options_.low_rank);
  const Scope model = root / "model";
  const TokenEmbeddingOptions embedding{.vocab_size = options.vocab_size,
                                        .hidden_size = options.hidden_size,
                                        .zero_id = options.learned_pad ? -1 : options.pad_id(),
                                        .padding_id = options.learned_pad ? options.pad_id() : -1,
                                        .dropout = options.dropout};
  TokenEmbeddingOptions source_embedding = embedding;
  source_embedding.vocab_size = options.source_vocab();
  Parameter& encoder_table = TokenEmbedding::AddTable(
      model / (options.tie_embeddings ? "shared" : "encoder.embed_tokens"), source_embedding);
  AddStack("encoder", source_embedding, encoder_table, encoder_);
  Parameter& decoder_table =
      options.tie_embeddings ? encoder_table
                             : TokenEmbedding::AddTable(model / "decoder.embed_tokens", embedding);
  AddStack("decoder", embedding, decoder_table, decoder_);
  output_weight_ =
      options.tie_output
          ? &decoder_table
          : &(root / "lm_head").Add("weight", decoder_table.shape(), Initializer::XavierUniform());
  output_weight_->MarkEmbedding();
  if (options.output_bias) {
    output_bias_ =
        &root.Add("final_logits_bias", {options.vocab_size}, Initializer::Constant(0.0f));
  }
  output_ = std::make_unique<OutputLoss>(
      *output_weight_,
      OutputLossOptions{.label_smoothing = options.label_smoothing, .trains_bias = false},
      output_bias_);
}

void Seq2SeqTransformer::AddStack(const std::string& name, const TokenEmbeddingOptions& embedding,
                                  Parameter& table, Stack& stack) {
  const Scope scope = Scope(parameters_, "model").Adapted(options_.low_rank) / name;
  const bool decoder = &stack == &decoder_;
  stack.embedding = std::make_unique<TokenEmbedding>(scope, embedding, positions_, table);
  stack.layers = std::make_unique<TransformerStack>(
      scope, TransformerStackOptions{
                 .layer = LayerOptionsOf(options_, decoder),
                 .num_layers = decoder ? options_.decoder_layers : options_.encoder_layers,
                 .backward_follows = decoder});
  if (options_.pre_norm) {
    stack.final_norm = std::make_unique<LayerNorm>(scope, "layer_norm", options_.hidden_size,
                                                   options_.layer_norm_epsilon);
  }
}

void Seq2SeqTransformer::Allocate(const Device& device, DType compute_type, uint64_t seed) {
  parameters_.Allocate(device, compute_type, seed);
}

TranslationInputs Seq2SeqTransformer::Upload(const TranslationBatch& batch, Context& ctx) const {
  const auto longest = std::max(batch.source.max_length(), batch.target.max_length());
  DT_CHECK_LE(longest, positions_.max_length())
      << "a sequence is longer than the table of positions (max_positions)";
  DT_CHECK_EQ(static_cast<int64_t>(batch.source_ids.size()), batch.source.tokens());
  DT_CHECK_EQ(static_cast<int64_t>(batch.decoder_ids.size()), batch.target.tokens());
  const std::vector<int32_t> source_positions = PositionsOf(batch.source);
  const std::vector<int32_t> target_positions = PositionsOf(batch.target);
  const std::vector<int32_t> source_numbers = batch.source.NumberRows();
  const std::vector<int32_t> target_numbers = batch.target.NumberRows();
  const std::array<HostList, 9> lists = {
      batch.source_ids,       source_positions, batch.decoder_ids,
      batch.target_ids,       target_positions, batch.source.offsets(),
      batch.target.offsets(), source_numbers,   target_numbers};
  const std::vector<Tensor> on_device = ctx.Upload(lists);
  TranslationInputs inputs{.source_ids = on_device[0],
                           .source_positions = on_device[1],
                           .decoder_ids = on_device[2],
                           .target_ids = on_device[3],
                           .target_positions = on_device[4],
                           .source = batch.source,
                           .target = batch.target};
  inputs.source.set_device_offsets(on_device[5]);
  inputs.target.set_device_offsets(on_device[6]);
  if (on_device[7].elements() > 0) inputs.source.set_row_numbers(on_device[7]);
  if (on_device[8].elements() > 0) inputs.target.set_row_numbers(on_device[8]);
  return inputs;
}

Tensor Seq2SeqTransformer::Run(Stack& stack, const Tensor& ids, const Tensor& positions,
                               const LayerInputs& inputs, Context& ctx) {
  Tensor x = stack.embedding->Forward(ids, positions, inputs.sequences.row_numbers(), ctx);
  x = stack.layers->Forward(x, inputs, ctx);
  return stack.final_norm ? stack.final_norm->Forward(x, ctx) : x;
}

Tensor Seq2SeqTransformer::Encode(const std::vector<int32_t>& ids, const Sequences& sequences,
                                  Context& ctx) {
  DT_CHECK_LE(sequences.max_length(), positions_.max_length())
      << "a sequence is longer than the table of positions";
  return Run(encoder_, ctx.Upload(ids), ctx.Upload(PositionsOf(sequences)),
             {sequences, Tensor(), sequences}, ctx);
}

Tensor Seq2SeqTransformer::Decode(const TranslationBatch& batch, const Tensor& memory,
                                  Context& ctx) {
  return Run(decoder_, ctx.Upload(batch.decoder_ids), ctx.Upload(PositionsOf(batch.target)),
             {batch.target, memory, batch.source}, ctx);
}

Tensor Seq2SeqTransformer::Logits(const TranslationBatch& batch, Context& ctx) {
  return output_->Logits(Decode(batch, Encode(batch.source_ids, batch.source, ctx), ctx), ctx);
}

LossSums Seq2SeqTransformer::Forward(const TranslationBatch& batch, Context& ctx,
                                     std::vector<int32_t>* predictions, std::vector<float>* nlls) {
  return Forward(Upload(batch, ctx), ctx, predictions, nlls);
}

LossSums Seq2SeqTransformer::Forward(const TranslationInputs& inputs, Context& ctx,
                                     std::vector<int32_t>* predictions, std::vector<float>* nlls) {
  if (inputs.target.count() == 0) return {};
  const Tensor memory = Run(encoder_, inputs.source_ids, inputs.source_positions,
                            {inputs.source, Tensor(), inputs.source}, ctx);
  const Tensor hidden = Run(decoder_, inputs.decoder_ids, inputs.target_positions,
                            {inputs.target, memory, inputs.source}, ctx);
  if (ctx.training()) {
    memory_ = memory;
    source_ = inputs.source;
    target_ = inputs.target;
  }
  Tensor predicted;
  if (predictions != nullptr) predicted = ctx.Empty({hidden.dim(0)}, DType::kInt32);
  Tensor nll;
  const LossSums sums =
      output_->Forward(hidden, inputs.target_ids, predicted, ctx, nlls == nullptr ? nullptr : &nll);
  if (predictions != nullptr) *predictions = Download<int32_t>(predicted, ctx.stream());
  if (nlls != nullptr) *nlls = Download<float>(nll, ctx.stream());
  return sums;
}

void Seq2SeqTransformer::Backward(Context& ctx) {
  if (!memory_) {  // an empty micro-batch adds nothing, but must report its gradients ready too
    FinishGradients();
    return;
  }
  Tensor d_memory = ctx.Empty(memory_.shape());
  Zero(d_memory, ctx.stream());
  Tensor gradient = output_->Backward();
  if (output_bias_ != nullptr) output_bias_->GradientReady();
  if (!options_.tie_output) output_weight_->GradientReady();
  BackwardStack(decoder_, std::move(gradient), {target_, memory_, source_}, d_memory, ctx);
  if (!options_.tie_embeddings) decoder_.embedding->table().GradientReady();
  memory_ = Tensor();
  Tensor none;
  BackwardStack(encoder_, std::move(d_memory), {source_, Tensor(), source_}, none, ctx);
  source_ = target_ = Sequences();  // also frees their memory on the device
  encoder_.embedding->table().GradientReady();
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
  gradient = stack.layers->Backward(std::move(gradient), inputs, d_memory, ctx);
  stack.embedding->Backward(gradient, ctx);
}

DecoderState Seq2SeqTransformer::StartDecoding(const Tensor& memory,
                                               const Sequences& memory_sequences, int64_t slots,
                                               Context& ctx) {
  DecoderState state{.layers = std::vector<LayerCache>(decoder_.layers->size()),
                     .memory_sequences = memory_sequences};
  for (size_t i = 0; i < decoder_.layers->size(); ++i) {
    decoder_.layers->layer(i).StartDecoding(memory, slots, state.layers[i], ctx);
  }
  return state;
}

Tensor Seq2SeqTransformer::Step(const std::vector<int32_t>& ids, int32_t position,
                                const StepInputs& inputs, DecoderState& state, Context& ctx) {
  Tensor x = decoder_.embedding->ForwardAt(ids, position, ctx);
  for (size_t i = 0; i < decoder_.layers->size(); ++i) {
    x = decoder_.layers->layer(i).ForwardStep(x, inputs, state.layers[i], ctx);
  }
  if (decoder_.final_norm) x = decoder_.final_norm->Forward(x, ctx);
  Tensor logits = output_->Logits(x, ctx);
  LogSoftmax(logits, logits, ctx.stream());
  return logits;
}

}  // namespace dtrain
