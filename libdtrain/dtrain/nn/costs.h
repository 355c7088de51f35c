// costs.h - what a Transformer layer costs: parameters, floating-point operations, activations.
// SPDX-License-Identifier: Apache-2.0
//
// Nothing here computes or allocates. Activations are counted by going through a layer's forward
// and backward as nn/transformer_layer.cc does, with blocks that have a size and no memory: whoever
// changes what a layer keeps changes it in both, and tests/models/seq2seq_costs_test.cc compares
// the two. With T tokens, M tokens of memory, hidden size H, ffn size F, N heads and elements of e
// bytes, a layer keeps beside its input, without recomputation and post-norm:
//   attention       e(3TH + TH) + 4TN       q, k, v; heads' outputs; log-sum-exp
//   cross-attention e(TH + 2MH + TH) + 4TN
//   feed-forward    eTF (relu) or 2eTF      after; before the activation
//   each sublayer   2eTH + 8T               sum and output of the norm; its mean and rstd
#ifndef DTRAIN_NN_COSTS_H_
#define DTRAIN_NN_COSTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dtrain/nn/context.h"
#include "dtrain/nn/transformer_stack.h"

namespace dtrain {

// Elements of the parameters of one layer.
struct LayerParameters {
  int64_t attention = 0;
  int64_t feed_forward = 0;
  int64_t layer_norm = 0;

  int64_t total() const { return attention + feed_forward + layer_norm; }
};
LayerParameters CountParameters(const TransformerLayerOptions& options);

// What a layer runs over. A pair is a query and a key it may see.
struct LayerBatch {
  double tokens = 0;
  double output_rows = 0;    // computed alone, their pairs too; 0: all tokens
  double pairs = 0;          // of self-attention
  double memory_tokens = 0;  // decoders
  double memory_pairs = 0;   // of cross-attention
};
// Of the forward products: 2 for each multiply-add. Backward's are twice as many.
double ForwardFlops(const TransformerLayerOptions& options, const LayerBatch& batch);

// What bytes of activations depend on beside shapes.
struct ActivationOptions {
  DType compute_type = DType::kFloat32;
  Recompute recompute = Recompute::kNone;
  int recompute_every = 2;  // k of Recompute::kEveryK
  DeviceType device = DeviceType::kCpu;
  bool training = true;  // else Forward() alone, with what an evaluation reads of it
};

// An arena without memory: counts what its blocks would take, alignment included.
class ByteMeter {
 public:
  // Counted until the last copy is gone; no block outlives the meter.
  using Block = std::shared_ptr<void>;
  Block Take(int64_t elements, DType dtype);

  int64_t used() const { return used_; }
  int64_t peak() const { return peak_; }

 private:
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

// The blocks of one layer, taken and let go as TransformerLayer does.
class LayerBlocks {
 public:
  using Block = ByteMeter::Block;

  // `meter` outlives this. Any positive number of memory tokens for decoders, 0 for encoders;
  // output rows, where an encoder's layer computes some alone.
  LayerBlocks(const TransformerLayerOptions& layer, int64_t tokens, int64_t memory_tokens,
              const ActivationOptions& options, ByteMeter& meter, int64_t output_rows = 0);

  Block Forward(const Block& x);
  Block Backward(const Block& dy);
  void Release();
  // A tensor [rows, hidden].
  Block Hidden() { return Take(layer_.hidden_size); }

 private:
  enum class Kind { kSelfAttention, kCrossAttention, kFeedForward };
  struct Sublayer {
    Kind kind = Kind::kSelfAttention;
    Block input = nullptr;
    Block norm_input = nullptr;
    Block mean = nullptr;
    Block rstd = nullptr;
    std::vector<Block> kept = {};  // by the block
    bool after_kept = false;       // feed-forward: the activation's output is among them
  };

  bool in_place() const { return layer_.activation == Activation::kRelu; }
  // Whether the activation's input is written: by a GPU's fused products in any case.
  bool has_before() const {
    return !in_place() && (options_.training || options_.device == DeviceType::kCuda);
  }
  bool is_narrow() const { return !layer_.decoder && memory_tokens_ > 0; }
  // Whether queries and keys are projected apart.
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
  int64_t rows_;           // tokens, or output rows
  int64_t memory_tokens_;  // with output rows, all tokens
  ActivationOptions options_;
  ByteMeter& meter_;
  std::vector<Sublayer> sublayers_;
  Block x_, all_rows_;
};

// The same for TransformerStack.
class StackBlocks {
 public:
  using Block = ByteMeter::Block;

  // output_rows: of the last layer, where it computes some rows alone.
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

// Elements of a model's parameters; total() is ParameterSet::num_elements().
struct ModelParameters {
  int64_t embeddings = 0;  // a tied output projection included
  int64_t attention = 0;
  int64_t feed_forward = 0;
  int64_t layer_norm = 0;
  int64_t output = 0;  // a projection of its own, or what stands on the encoder

  int64_t total() const { return embeddings + attention + feed_forward + layer_norm + output; }
};

// Floating-point operations of the products; recomputed ones are apart, because they are no part of
// what the model needs.
struct ModelFlops {
  double forward = 0;
  double backward = 0;
  double recomputed = 0;

  double model() const { return forward + backward; }
};

// What planning asks of a model and a micro-batch.
struct ModelCosts {
  int64_t parameters = 0;
  int deepest = 1;  // layers of the longest stack
  // Arena::peak() of Forward() and Backward() while training, or of Forward() while evaluating.
  std::function<int64_t(const ActivationOptions&)> peak_bytes;
  std::function<ModelFlops(Recompute, int recompute_every)> flops;
};

// A way to recompute, and what it costs.
struct RecomputePlan {
  Recompute recompute = Recompute::kNone;
  int recompute_every = 2;
  int64_t peak_bytes = 0;
  double recomputed_flops = 0;  // 0 also for kCheap, which repeats no product
  bool fits = true;
};
// Of the way that `activations` says.
RecomputePlan CostsOfRecompute(const ModelCosts& costs, const ActivationOptions& activations);
// The fastest one whose peak is within the budget; where none is, the one with the lowest peak.
// `activations` says all but how to recompute.
RecomputePlan PlanRecompute(const ModelCosts& costs, const ActivationOptions& activations,
                            int64_t budget_bytes);

// Layers whose forward runs twice: what recomputation costs in time.
int RecomputedLayers(const TransformerStackOptions& stack, Recompute recompute,
                     int recompute_every);

}  // namespace dtrain

#endif  // DTRAIN_NN_COSTS_H_
