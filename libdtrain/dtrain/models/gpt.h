// gpt.h - GPT, a decoder-only Transformer that says which token comes next.
// SPDX-License-Identifier: Apache-2.0
//
//   Gpt model({.vocab_size = 257});
//   model.Allocate(device, DType::kFloat32, /*seed=*/1);
//   const LossSums sums = model.Forward(batch, ctx);
//   model.Backward(ctx);
//
// Radford et al., "Language Models are Unsupervised Multitask Learners" (2019): pre-norm layers,
// learned positions, the embeddings as output projection. Weights have the names of Hugging Face's
// GPT2LMHeadModel. Two things differ there, which an export has to turn:
//   matrices are [in, out] there (Conv1D), here [out, in];
//   attn.c_attn is one matrix there, here attn.q, attn.k and attn.v, in this order.
// models/gpt_sampling.h continues texts.
#ifndef DTRAIN_MODELS_GPT_H_
#define DTRAIN_MODELS_GPT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/device/sequences.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/layer_norm.h"
#include "dtrain/nn/output_loss.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/nn/transformer_layer.h"

namespace dtrain {

// The defaults are those of GPT-2 small.
struct GptOptions {
  int64_t vocab_size = 50257;
  int64_t hidden_size = 768;
  int num_layers = 12;
  int num_heads = 12;
  int64_t ffn_size = 3072;
  Activation activation = Activation::kGeluTanh;
  int64_t max_positions = 1024;  // length of the longest sequence
  float layer_norm_epsilon = 1e-5f;
  float dropout = 0.1f;             // on the embeddings and on each sublayer's output
  float attention_dropout = 0.1f;   // on the attention probabilities
  float initializer_range = 0.02f;  // initial standard deviation of all matrices
};

// The options of each layer, including names.
TransformerLayerOptions LayerOptionsOf(const GptOptions& options);

// A packed micro-batch. May be empty.
struct GptBatch {
  std::vector<int32_t> input_ids;   // [tokens]
  std::vector<int32_t> target_ids;  // [tokens]: what follows each input
  Sequences sequences;
};

// A GptBatch in device memory.
struct GptInputs {
  Tensor input_ids, target_ids, position_ids;  // [tokens], int32
  Sequences sequences;  // with device_offsets(), and row_numbers() if the batch has numbers
};

// The keys and values of what some rows have read so far.
struct GptCache {
  std::vector<LayerCache> layers;
};

class Gpt {
 public:
  explicit Gpt(const GptOptions& options);
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  // Allocates and initialises the parameters. Call it before anything else.
  void Allocate(const Device& device, DType compute_type, uint64_t seed);

  ParameterSet& parameters() { return parameters_; }
  const GptOptions& options() const { return options_; }

  // Copies a batch to the device, with one copy. Forward and Backward then copy nothing.
  GptInputs Upload(const GptBatch& batch, Context& ctx) const;

  // Returns the sums of the loss over the batch's targets. While training, keeps the tensors
  // Backward needs; gradients are those of the summed loss. For a trainer's scale and sums see
  // nn/loss_sums.h. `nlls`, unless null, receives the loss of each token.
  LossSums Forward(const GptInputs& inputs, Context& ctx, std::vector<float>* nlls = nullptr);
  LossSums Forward(const GptBatch& batch, Context& ctx, std::vector<float>* nlls = nullptr) {
    return Forward(Upload(batch, ctx), ctx, nlls);
  }
  // Accumulates all parameter gradients of the last Forward.
  void Backward(Context& ctx);

  // The logits at all inputs: [tokens, vocab], float32. Not while training.
  Tensor Logits(const GptBatch& batch, Context& ctx);

  // Starts incremental decoding with room for `slots` positions of all rows together.
  GptCache StartDecoding(int64_t slots, Context& ctx);
  // Reads one token of each row, all at the same position. `inputs` says which slots of the cache
  // hold a row's own tokens (nn/transformer_layer.h). Returns logits [rows, vocab], float32. Not
  // while training.
  Tensor Step(std::span<const int32_t> ids, int32_t position, const StepInputs& inputs,
              GptCache& cache, Context& ctx);

 private:
  Tensor Embed(const Tensor& ids, const Tensor& position_ids, const Tensor& row_numbers,
               Context& ctx) const;
  // The output of the last norm.
  Tensor Hidden(const GptInputs& inputs, Context& ctx);
  void BackwardEmbeddings(const Tensor& dy, Context& ctx);

  GptOptions options_;
  ParameterSet parameters_;
  Scope scope_{parameters_, "transformer"};
  Parameter& words_;
  Parameter& positions_;
  uint32_t dropout_site_;
  TransformerStack layers_;
  LayerNorm final_norm_;
  OutputLoss output_;  // its matrix is that of the words
  GptInputs inputs_;   // of the last forward while training
};

}  // namespace dtrain

#endif  // DTRAIN_MODELS_GPT_H_
