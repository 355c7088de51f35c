// costs.h - costs of a Transformer layer: parameters, floating-point operations, activations.
// SPDX-License-Identifier: Apache-2.0
//
// Used to plan memory before anything is allocated; nothing here computes or allocates. Activations
// are counted by repeating a layer's forward and backward (nn/transformer_layer.cc) with blocks
// that have a size but no memory. If you change which tensors a layer keeps, change both;
// tests/models/seq2seq_costs_test.cc compares them.
//
// With T tokens, M tokens of memory, hidden size H, ffn size F, N heads and elements of e bytes, a
// post-norm layer without recomputation keeps, besides its input:
//   attention       e(3TH + TH) + 4TN       q, k, v; heads' outputs; log-sum-exp
//   cross-attention e(TH + 2MH + TH) + 4TN
//   feed-forward    eTF (relu) or 2eTF      after; before the activation
//                   3eTF (gated)            after; before the activation, with the gate
//   each sublayer   2eTH + 8T               sum and output of the norm; its mean and rstd
#ifndef DTRAIN_NN_COSTS_H_
#define DTRAIN_NN_COSTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dtrain/nn/context.h"
#include "dtrain/nn/transformer_layer.h"

namespace dtrain {

// Number of elements of one layer's parameters.
struct LayerParameters {
  int64_t attention = 0;
  int64_t feed_forward = 0;
  int64_t layer_norm = 0;

  int64_t total() const { return attention + feed_forward + layer_norm; }
};
LayerParameters CountParameters(const TransformerLayerOptions& options);
// The same for all layers of a stack together.
LayerParameters CountParameters(const TransformerStackOptions& options);

// The pairs of self-attention in a sequence of `length` tokens. window: the number of keys that a
// query sees on either side of it; 0 means all. (A window does not change which tensors are kept.)
double SelfAttentionPairs(double length, int window = 0);

// The size of a layer's input. A pair is a query and a key that it may see.
struct LayerBatch {
  double tokens = 0;
  double output_rows = 0;    // rows that are computed alone, together with their pairs; 0 means all
                             // tokens
  double pairs = 0;          // pairs of self-attention
  double memory_tokens = 0;  // decoders only
  double memory_pairs = 0;   // pairs of cross-attention
};
// Floating-point operations of the forward products, 2 for each multiply-add. Backward takes twice
// as many.
double ForwardFlops(const TransformerLayerOptions& options, const LayerBatch& batch);

// Settings besides shapes that the bytes of activations depend on.
struct ActivationOptions {
  DType compute_type = DType::kFloat32;
  Recompute recompute = Recompute::kNone;
  int recompute_every = 2;  // k of Recompute::kEveryK
  DeviceType device = DeviceType::kCpu;
  bool training = true;  // false: only Forward(), and the tensors an evaluation reads
};

// Works like an arena without memory: counts the bytes its blocks would occupy, including
// alignment.
class ByteMeter {
 public:
  // A block counts until its last copy is destroyed. No block may outlive the meter.
  using Block = std::shared_ptr<void>;
  Block Take(int64_t elements, DType dtype);

  int64_t used() const { return used_; }
  int64_t peak() const { return peak_; }

 private:
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

// The blocks of one layer, allocated and freed in the same order as in TransformerLayer.
class LayerBlocks {
 public:
  using Block = ByteMeter::Block;

  // `meter` must outlive this object. memory_tokens is positive for decoders and 0 for encoders.
  // output_rows is positive if an encoder's layer computes only some rows.
  LayerBlocks(const TransformerLayerOptions& layer, int64_t tokens, int64_t memory_tokens,
              const ActivationOptions& options, ByteMeter& meter, int64_t output_rows = 0);

  Block Forward(const Block& x);
  Block Backward(const Block& dy);
  void Release();
  // The block of a tensor [rows, hidden].
  Block Hidden() { return Take(layer_.hidden_size); }

 private:
  enum class Kind { kSelfAttention, kCrossAttention, kFeedForward };
  struct Sublayer {
    Kind kind = Kind::kSelfAttention;
    Block input = nullptr;
    Block norm_input = nullptr;
    Block mean = nullptr;
    Block rstd = nullptr;
    std::vector<Block> kept = {};  // kept by the sublayer's attention or feed-forward block
    bool after_kept = false;       // feed-forward only: `kept` includes the activation's output
  };

  bool in_place() const { return layer_.activation == Activation::kRelu && !layer_.gated; }
  // True if the activation's input is stored. A GPU's fused products always store it, and so do
  // gated blocks.
  bool has_before() const {
    return !in_place() &&
           (options_.training || options_.device == DeviceType::kCuda || layer_.gated);
  }
  bool has_norm(const Sublayer& sublayer) const {
    return sublayer.kind != Kind::kSelfAttention || layer_.attention_norm;
  }
  bool is_narrow() const { return !layer_.decoder && memory_tokens_ > 0; }
  // True if queries and keys are projected separately.
  bool is_apart(const Sublayer& sublayer) const {
    return sublayer.kind == Kind::kCrossAttention || is_narrow();
  }
  Block Take(int64_t columns) { return meter_.Take(rows_ * columns, options_.compute_type); }
  void TakeNorm(Sublayer& sublayer, const Block& input);
  Block ForwardSublayers(const Block& x);
  Block ForwardBlock(Sublayer& sublayer);
  void BackwardBlock(Sublayer& sublayer);
  Block BackwardSublayer(size_t i, const Block& dy);

  TransformerLayerOptions layer_;
  int64_t rows_;           // number of tokens, or of output rows
  int64_t memory_tokens_;  // with output rows, the number of all tokens
  ActivationOptions options_;
  ByteMeter& meter_;
  std::vector<Sublayer> sublayers_;
  Block x_, all_rows_;
};

// Like LayerBlocks, for a TransformerStack.
class StackBlocks {
 public:
  using Block = ByteMeter::Block;

  // output_rows: number of rows that the last layer computes, if it computes only some.
  StackBlocks(const TransformerStackOptions& stack, int64_t tokens, int64_t memory_tokens,
              const ActivationOptions& options, ByteMeter& meter, int64_t output_rows = 0);

  Block Forward(const Block& x);
  Block Backward(Block dy);

 private:
  bool IsKept(size_t begin) const {
    return stack_.backward_follows && begin + k_ >= layers_.size();
  }

  TransformerStackOptions stack_;
  bool in_segments_;
  size_t k_;
  std::vector<LayerBlocks> layers_;
  std::vector<Block> segment_inputs_;
};

// Number of elements of a model's parameters; total() equals ParameterSet::num_elements().
struct ModelParameters {
  int64_t embeddings = 0;  // including a tied output projection
  int64_t attention = 0;
  int64_t feed_forward = 0;
  int64_t layer_norm = 0;
  int64_t output = 0;    // a separate output projection, or the head on an encoder
  int64_t adapters = 0;  // the factors of low-rank adapters
  int64_t frozen = 0;    // of all these, those that are not trained
  int64_t composed = 0;  // of the frozen, those that float32 stores twice because of adapters

  int64_t total() const {
    return embeddings + attention + feed_forward + layer_norm + output + adapters;
  }
  int64_t trained() const { return total() - frozen; }
};

// Floating-point operations of the products. Recomputed ones are counted separately, because the
// model itself does not need them.
struct ModelFlops {
  double forward = 0;
  double backward = 0;
  double recomputed = 0;

  double model() const { return forward + backward; }
};

// Functions that planning needs from a model and a micro-batch.
struct ModelCosts {
  int64_t parameters = 0;          // elements of all
  int64_t trained_parameters = 0;  // of those that are not frozen
  int deepest = 1;                 // number of layers of the longest stack
  // Arena::peak() of Forward() and Backward() while training, or of Forward() in an evaluation.
  std::function<int64_t(const ActivationOptions&)> peak_bytes;
  std::function<ModelFlops(Recompute, int recompute_every)> flops;
};

// A recomputation policy and its costs.
struct RecomputePlan {
  Recompute recompute = Recompute::kNone;
  int recompute_every = 2;
  int64_t peak_bytes = 0;
  double recomputed_flops = 0;  // also 0 for kCheap, which repeats no product
  bool fits = true;
};
// The costs of the policy in `activations`.
RecomputePlan CostsOfRecompute(const ModelCosts& costs, const ActivationOptions& activations);
// The fastest policy whose peak is within the budget, or the one with the lowest peak if none is.
// The policy in `activations` is ignored.
RecomputePlan PlanRecompute(const ModelCosts& costs, const ActivationOptions& activations,
                            int64_t budget_bytes);

// Counts the adapters of a model whose weights are all frozen so far. `named`: the parameters of a
// model with these options, whose names decide which layers have adapters; Arrange() is called.
void CountAdapters(ParameterSet& named, ModelParameters& parameters);

// Operations of backward where the weights are frozen, except for a head with `head_flops` in
// forward: products with the matrices (`product_flops` in forward) give gradients of inputs alone,
// and each adapter adds four products with its factors.
double BackwardFlopsOfFrozen(double forward_flops, double product_flops, double head_flops,
                             int64_t adapters, double tokens);

// Number of layers whose forward runs twice, which is the extra time of recomputation.
int RecomputedLayers(const TransformerStackOptions& stack, Recompute recompute,
                     int recompute_every);

}  // namespace dtrain

#endif  // DTRAIN_NN_COSTS_H_
