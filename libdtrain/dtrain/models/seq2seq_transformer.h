// seq2seq_transformer.h - the encoder-decoder Transformer for translation.
// SPDX-License-Identifier: Apache-2.0
//
// Vaswani et al., "Attention Is All You Need" (2017), with sinusoidal positions. Weights are named
// and shaped as in Hugging Face's MarianMTModel (post-norm) and PegasusForConditionalGeneration
// (pre-norm), so that exporting is copying. The last id is <pad>: it starts the decoder as a zero
// vector and its row of the embeddings stays zero.
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
#include "dtrain/nn/transformer_stack.h"

namespace dtrain {

struct Seq2SeqOptions {
  int64_t vocab_size = 32768;  // joint, <pad> included as the last id
  int encoder_layers = 6;
  int decoder_layers = 6;
  int64_t hidden_size = 512;
  int64_t ffn_size = 2048;
  int num_heads = 8;
  Activation activation = Activation::kRelu;
  bool pre_norm = false;
  float layer_norm_epsilon = 1e-5f;
  bool tie_embeddings = true;  // source and target share one table
  bool tie_output = true;      // the output projection is the target's table
  float dropout = 0.1f;
  float attention_dropout = 0.0f;
  float activation_dropout = 0.0f;
  float label_smoothing = 0.1f;
  int64_t max_positions = 512;  // the longest sequence

  int32_t pad_id() const { return static_cast<int32_t>(vocab_size) - 1; }
};

// Of each layer of the encoder or the decoder.
TransformerLayerOptions LayerOptionsOf(const Seq2SeqOptions& options, bool decoder);

// A packed micro-batch of sentence pairs. Sources and targets end with the end-of-sentence id;
// decoder_ids is the target shifted right by one, <pad> first.
struct TranslationBatch {
  std::vector<int32_t> source_ids;
  Sequences source;
  std::vector<int32_t> decoder_ids;
  std::vector<int32_t> target_ids;
  Sequences target;
};

// A TranslationBatch in the memory of the model's device.
struct TranslationInputs {
  Tensor source_ids, source_positions;               // [source tokens], int32
  Tensor decoder_ids, target_ids, target_positions;  // [target tokens], int32
  Sequences source, target;  // with device_offsets(), and row_numbers() if numbered
};

// Caches of a batch of sentences being translated.
struct DecoderState {
  std::vector<LayerCache> layers;
  Sequences memory_sequences;
};

class Seq2SeqTransformer {
 public:
  explicit Seq2SeqTransformer(const Seq2SeqOptions& options);
  Seq2SeqTransformer(const Seq2SeqTransformer&) = delete;
  Seq2SeqTransformer& operator=(const Seq2SeqTransformer&) = delete;

  // Places and initialises the parameters; before anything else.
  void Allocate(const Device& device, DType compute_type, uint64_t seed);

  ParameterSet& parameters() { return parameters_; }
  const Seq2SeqOptions& options() const { return options_; }

  // Copies what a batch is made of, at once; Forward and Backward then copy nothing.
  TranslationInputs Upload(const TranslationBatch& batch, Context& ctx) const;

  // Loss sums over the batch's target tokens, computed under teacher forcing. While training, keeps
  // what Backward needs; gradients are those of the loss sum. A trainer's scale and sums:
  // nn/loss_sums.h. `predictions`, unless null, receives the best token at each target position.
  LossSums Forward(const TranslationInputs& inputs, Context& ctx,
                   std::vector<int32_t>* predictions = nullptr);
  LossSums Forward(const TranslationBatch& batch, Context& ctx,
                   std::vector<int32_t>* predictions = nullptr);
  // Accumulates all parameter gradients of the last Forward.
  void Backward(Context& ctx);

  // Encoder output of packed sources: [tokens, hidden].
  Tensor Encode(const std::vector<int32_t>& ids, const Sequences& sequences, Context& ctx);
  // Decoder output before the projection: [target tokens, hidden].
  Tensor Decode(const TranslationBatch& batch, const Tensor& memory, Context& ctx);
  // Logits of all target positions, [target tokens, vocab], float32: for tests and scoring.
  Tensor Logits(const TranslationBatch& batch, Context& ctx);

  // Incremental decoding: projects the memory once for every layer and makes room for `slots`
  // cached positions.
  DecoderState StartDecoding(const Tensor& memory, const Sequences& memory_sequences, int64_t slots,
                             Context& ctx);
  // One position for each row: log-probabilities [rows, vocab], float32.
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
  // The sequences' row_numbers() are those of ids, too.
  Tensor Run(Stack& stack, const Tensor& ids, const Tensor& positions, const LayerInputs& inputs,
             Context& ctx);
  // Through the stack to its embedding.
  void BackwardStack(Stack& stack, Tensor gradient, const LayerInputs& inputs, Tensor& d_memory,
                     Context& ctx);
  void FinishGradients();

  Seq2SeqOptions options_;
  ParameterSet parameters_;
  SinusoidalPositions positions_;
  Stack encoder_, decoder_;
  Parameter* output_weight_ = nullptr;
  std::unique_ptr<OutputLoss> output_;
  // Of the last forward while training.
  Tensor memory_;
  Sequences source_, target_;
};

}  // namespace dtrain

#endif  // DTRAIN_MODELS_SEQ2SEQ_TRANSFORMER_H_
