// seq2seq_transformer.h - the encoder-decoder Transformer for translation.
// SPDX-License-Identifier: Apache-2.0
//
//   Seq2SeqTransformer model({.vocab_size = 32768});
//   model.Allocate(device, DType::kFloat32, /*seed=*/1);
//   const LossSums sums = model.Forward(batch, ctx);
//   model.Backward(ctx);
//
// Vaswani et al., "Attention Is All You Need" (2017), with sinusoidal positions. Weights have the
// names and shapes of Hugging Face's MarianMTModel (post-norm) or PegasusForConditionalGeneration
// (pre-norm), so exporting only copies them. The decoder starts with <pad>, which embeds as a zero
// vector unless learned_pad is set: then it embeds as its row of the table, as in transformers.
#ifndef DTRAIN_MODELS_SEQ2SEQ_TRANSFORMER_H_
#define DTRAIN_MODELS_SEQ2SEQ_TRANSFORMER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/device/sequences.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/embedding.h"
#include "dtrain/nn/layer_norm.h"
#include "dtrain/nn/output_loss.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/nn/transformer_layer.h"

namespace dtrain {

struct Seq2SeqOptions {
  int64_t vocab_size = 32768;     // joint vocabulary, or that of targets, including <pad>
  int64_t source_vocab_size = 0;  // of sources; 0: the joint one. Needs tie_embeddings=false
  int32_t pad = -1;               // the id of <pad>, in both; -1: the last one of vocab_size
  int encoder_layers = 6;
  int decoder_layers = 6;
  int64_t hidden_size = 512;
  int64_t ffn_size = 2048;
  int num_heads = 8;
  Activation activation = Activation::kRelu;
  bool pre_norm = false;
  float layer_norm_epsilon = 1e-5f;
  bool tie_embeddings = true;  // source and target share one table
  bool tie_output = true;      // the output projection shares the target's table
  bool output_bias = false;    // final_logits_bias: added to the logits, and not trained
  bool learned_pad = false;    // false: the row of <pad> stays zero
  float dropout = 0.1f;
  float attention_dropout = 0.0f;
  float activation_dropout = 0.0f;
  float label_smoothing = 0.1f;
  int64_t max_positions = 512;  // length of the longest sequence
  // With a rank, all weights are frozen, and only adapters are trained.
  LowRankOptions low_rank = {};

  int64_t source_vocab() const { return source_vocab_size > 0 ? source_vocab_size : vocab_size; }
  int32_t pad_id() const { return pad >= 0 ? pad : static_cast<int32_t>(vocab_size) - 1; }
};

// The options of each layer of the encoder or the decoder.
TransformerLayerOptions LayerOptionsOf(const Seq2SeqOptions& options, bool decoder);

// A packed micro-batch of sentence pairs. Sources and targets end with the end-of-sentence id.
// decoder_ids is the target shifted right by one, with <pad> first.
struct TranslationBatch {
  std::vector<int32_t> source_ids;
  Sequences source;
  std::vector<int32_t> decoder_ids;
  std::vector<int32_t> target_ids;
  Sequences target;
};

// A TranslationBatch in device memory.
struct TranslationInputs {
  Tensor source_ids, source_positions;               // [source tokens], int32
  Tensor decoder_ids, target_ids, target_positions;  // [target tokens], int32
  Sequences source, target;  // with device_offsets(), and row_numbers() if the batch has numbers
};

// The caches for a batch of sentences that are being translated.
struct DecoderState {
  std::vector<LayerCache> layers;
  Sequences memory_sequences;
};

class Seq2SeqTransformer {
 public:
  explicit Seq2SeqTransformer(const Seq2SeqOptions& options);
  Seq2SeqTransformer(const Seq2SeqTransformer&) = delete;
  Seq2SeqTransformer& operator=(const Seq2SeqTransformer&) = delete;

  // Allocates and initialises the parameters. Call it before anything else.
  void Allocate(const Device& device, DType compute_type, uint64_t seed);

  ParameterSet& parameters() { return parameters_; }
  const Seq2SeqOptions& options() const { return options_; }

  // Copies a batch to the device, with one copy. Forward and Backward then copy nothing.
  TranslationInputs Upload(const TranslationBatch& batch, Context& ctx) const;

  // Returns the sums of the loss over the batch's target tokens, with teacher forcing. While
  // training, keeps the tensors Backward needs; gradients are those of the summed loss. For a
  // trainer's scale and sums see nn/loss_sums.h. `predictions`, unless null, receives the most
  // probable token at each target position, and `nlls` the cross-entropy there.
  LossSums Forward(const TranslationInputs& inputs, Context& ctx,
                   std::vector<int32_t>* predictions = nullptr, std::vector<float>* nlls = nullptr);
  LossSums Forward(const TranslationBatch& batch, Context& ctx,
                   std::vector<int32_t>* predictions = nullptr, std::vector<float>* nlls = nullptr);
  // Accumulates all parameter gradients of the last Forward.
  void Backward(Context& ctx);

  // Returns the encoder's output for packed sources: [tokens, hidden].
  Tensor Encode(const std::vector<int32_t>& ids, const Sequences& sequences, Context& ctx);
  // Returns the decoder's output before the projection: [target tokens, hidden].
  Tensor Decode(const TranslationBatch& batch, const Tensor& memory, Context& ctx);
  // Returns the logits of all target positions, [target tokens, vocab], float32, for tests and
  // scoring.
  Tensor Logits(const TranslationBatch& batch, Context& ctx);

  // Starts incremental decoding: computes every layer's keys and values of the memory, and
  // allocates caches of `slots` positions.
  DecoderState StartDecoding(const Tensor& memory, const Sequences& memory_sequences, int64_t slots,
                             Context& ctx);
  // Decodes one position of each row. Returns log-probabilities [rows, vocab], float32.
  Tensor Step(const std::vector<int32_t>& ids, int32_t position, const StepInputs& inputs,
              DecoderState& state, Context& ctx);

 private:
  struct Stack {
    std::unique_ptr<TokenEmbedding> embedding;
    std::unique_ptr<TransformerStack> layers;
    std::unique_ptr<LayerNorm> final_norm;  // pre-norm only
  };

  void AddStack(const std::string& name, const TokenEmbeddingOptions& embedding, Parameter& table,
                Stack& stack);
  // Runs a stack with its embedding. The sequences' row_numbers() also number the ids.
  Tensor Run(Stack& stack, const Tensor& ids, const Tensor& positions, const LayerInputs& inputs,
             Context& ctx);
  // Runs backward through a stack and its embedding.
  void BackwardStack(Stack& stack, Tensor gradient, const LayerInputs& inputs, Tensor& d_memory,
                     Context& ctx);
  void FinishGradients();

  Seq2SeqOptions options_;
  ParameterSet parameters_;
  SinusoidalPositions positions_;
  Stack encoder_, decoder_;
  Parameter* output_weight_ = nullptr;
  Parameter* output_bias_ = nullptr;  // null without output_bias
  std::unique_ptr<OutputLoss> output_;
  // From the last forward while training.
  Tensor memory_;
  Sequences source_, target_;
};

}  // namespace dtrain

#endif  // DTRAIN_MODELS_SEQ2SEQ_TRANSFORMER_H_
