// costs.cc - closed formulas, and a layer's passes over blocks without memory.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/costs.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/device/arena.h"
#include "dtrain/nn/frozen_parameters.h"

namespace dtrain {

LayerParameters CountParameters(const TransformerLayerOptions& options) {
  const int64_t hidden = options.hidden_size;
  const int64_t attention = 4 * hidden * (hidden + (options.attention_bias ? 1 : 0));
  const int64_t attentions = options.decoder ? 2 : 1;
  const int64_t activations = (options.gated ? 2 : 1) * options.ffn_size;  // outputs of fc1
  return {.attention = attentions * attention,
          .feed_forward = (activations + options.ffn_size) * hidden +
                          (options.feed_forward_bias ? activations + hidden : 0),
          .layer_norm = (attentions + (options.attention_norm ? 1 : 0)) *
                        (options.norm_bias ? 2 : 1) * hidden};
}

LayerParameters CountParameters(const TransformerStackOptions& options) {
  LayerParameters sum;
  for (int i = 0; i < options.num_layers; ++i) {
    const LayerParameters layer = CountParameters(LayerOptionsOf(options, i));
    sum.attention += layer.attention;
    sum.feed_forward += layer.feed_forward;
    sum.layer_norm += layer.layer_norm;
  }
  return sum;
}

double SelfAttentionPairs(double length, int window) {
  const double reach = window;
  if (window == 0 || reach > length - 1.0) return length * length;
  // Each query sees 2 reach + 1 keys, but for those that the ends of the sequence cut off: reach of
  // the first query's, reach - 1 of the second's, and so on, at both ends.
  return length * (2.0 * reach + 1.0) - reach * (reach + 1.0);
}

double ForwardFlops(const TransformerLayerOptions& options, const LayerBatch& batch) {
  const auto hidden = static_cast<double>(options.hidden_size);
  const auto ffn = static_cast<double>(options.ffn_size);
  const double rows = batch.output_rows > 0.0 ? batch.output_rows : batch.tokens;
  // The products for queries and outputs, keys and values. Scores and their weighted sums of values
  // are 2 products of `hidden` for each pair.
  double flops = (rows + batch.tokens) * 4.0 * hidden * hidden + batch.pairs * 4.0 * hidden;
  if (options.decoder) {
    flops += (batch.tokens + batch.memory_tokens) * 4.0 * hidden * hidden +
             batch.memory_pairs * 4.0 * hidden;
  }
  return flops + rows * (options.gated ? 6.0 : 4.0) * hidden * ffn;
}

int RecomputedLayers(const TransformerStackOptions& stack, Recompute recompute,
                     int recompute_every) {
  if (recompute == Recompute::kFull) return stack.num_layers;
  if (recompute != Recompute::kEveryK) return 0;
  if (!stack.backward_follows) return stack.num_layers;
  return (stack.num_layers - 1) / recompute_every * recompute_every;
}

ByteMeter::Block ByteMeter::Take(int64_t elements, DType dtype) {
  const auto bytes =
      static_cast<int64_t>(Arena::BlockBytes(static_cast<size_t>(elements) * SizeOf(dtype)));
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return {this, [bytes](void* meter) { static_cast<ByteMeter*>(meter)->used_ -= bytes; }};
}

LayerBlocks::LayerBlocks(const TransformerLayerOptions& layer, int64_t tokens,
                         int64_t memory_tokens, const ActivationOptions& options, ByteMeter& meter,
                         int64_t output_rows)
    : layer_(layer),
      rows_(output_rows > 0 ? output_rows : tokens),
      memory_tokens_(output_rows > 0 ? tokens : memory_tokens),
      options_(options),
      meter_(meter) {
  sublayers_.push_back({.kind = Kind::kSelfAttention});
  if (layer.decoder) sublayers_.push_back({.kind = Kind::kCrossAttention});
  sublayers_.push_back({.kind = Kind::kFeedForward});
}

LayerBlocks::Block LayerBlocks::Forward(const Block& x) {
  const Block own = is_narrow() ? Hidden() : x;
  Block y = ForwardSublayers(own);
  if (!options_.training) return y;
  if (options_.recompute == Recompute::kFull) Release();
  x_ = own;
  if (is_narrow()) all_rows_ = x;
  return y;
}

void LayerBlocks::TakeNorm(Sublayer& sublayer, const Block& input) {
  sublayer.norm_input = input;
  sublayer.mean = meter_.Take(rows_, DType::kFloat32);
  sublayer.rstd = meter_.Take(rows_, DType::kFloat32);
  if (!options_.training) sublayer = {.kind = sublayer.kind};
}

LayerBlocks::Block LayerBlocks::ForwardSublayers(const Block& x) {
  Block y = x;
  for (Sublayer& sublayer : sublayers_) {
    Block input = y;
    if (layer_.pre_norm && has_norm(sublayer)) {
      input = Hidden();
      TakeNorm(sublayer, y);
    }
    if (options_.training && options_.recompute != Recompute::kCheap) sublayer.input = input;
    Block result = ForwardBlock(sublayer);
    if (!layer_.pre_norm) {
      Block normed = Hidden();
      TakeNorm(sublayer, result);
      result = std::move(normed);
    }
    y = std::move(result);
  }
  return y;
}

LayerBlocks::Block LayerBlocks::ForwardBlock(Sublayer& sublayer) {
  const int64_t hidden = layer_.hidden_size;
  if (sublayer.kind == Kind::kFeedForward) {
    Block before = Take((layer_.gated ? 2 : 1) * layer_.ffn_size);
    Block after = has_before() ? Take(layer_.ffn_size) : before;
    Block result = Hidden();
    if (!options_.training) return result;
    sublayer.after_kept = in_place() || options_.recompute == Recompute::kNone;
    sublayer.kept = {std::move(before)};
    if (sublayer.after_kept) sublayer.kept.push_back(std::move(after));
    return result;
  }
  const bool apart = is_apart(sublayer);
  std::vector<Block> kept = {Take(apart ? hidden : 3 * hidden)};
  if (apart) kept.push_back(meter_.Take(memory_tokens_ * 2 * hidden, options_.compute_type));
  kept.push_back(Hidden());
  kept.push_back(meter_.Take(rows_ * layer_.num_heads, DType::kFloat32));
  Block result = Hidden();
  if (options_.training) sublayer.kept = std::move(kept);
  return result;
}

LayerBlocks::Block LayerBlocks::Backward(const Block& dy) {
  DT_CHECK(x_ != nullptr) << "Backward() without Forward()";
  Block dx;
  if (is_narrow()) dx = meter_.Take(memory_tokens_ * layer_.hidden_size, options_.compute_type);
  if (options_.recompute == Recompute::kFull) ForwardSublayers(x_);
  Block gradient = dy;
  for (size_t i = sublayers_.size(); i-- > 0;) gradient = BackwardSublayer(i, gradient);
  Release();
  return dx ? dx : gradient;
}

LayerBlocks::Block LayerBlocks::BackwardSublayer(size_t i, const Block& dy) {
  Sublayer& sublayer = sublayers_[i];
  Block input = sublayer.input;
  const bool repeats_norm = layer_.pre_norm ? has_norm(sublayer) : i > 0;
  if (!input) input = repeats_norm ? Hidden() : x_;
  Block dx;
  const bool has_dropout = layer_.dropout > 0.0f;
  if (layer_.pre_norm) {
    const Block d_result = has_dropout ? Hidden() : dy;
    const Block d_input = has_norm(sublayer) ? Hidden() : dy;
    BackwardBlock(sublayer);
    dx = has_norm(sublayer) ? Hidden() : d_input;
  } else {
    dx = Hidden();
    const Block d_result = has_dropout ? Hidden() : dx;
    BackwardBlock(sublayer);
  }
  sublayer = {.kind = sublayer.kind};
  return dx;
}

void LayerBlocks::BackwardBlock(Sublayer& sublayer) {
  const int64_t hidden = layer_.hidden_size;
  if (sublayer.kind == Kind::kFeedForward) {
    if (!sublayer.after_kept) sublayer.kept.push_back(Take(layer_.ffn_size));
    // The gradients of a gated block take the places of the activations.
    const Block d_after = layer_.gated ? nullptr : Take(layer_.ffn_size);
    sublayer.kept.clear();
    return;
  }
  const bool apart = is_apart(sublayer);
  const Block d_attention = Hidden();
  const Block d_projected = Take(apart ? hidden : 3 * hidden);
  const Block d_keys_values =
      apart ? meter_.Take(memory_tokens_ * 2 * hidden, options_.compute_type) : nullptr;
  sublayer.kept.clear();
}

void LayerBlocks::Release() {
  x_ = all_rows_ = nullptr;
  for (Sublayer& sublayer : sublayers_) sublayer = {.kind = sublayer.kind};
}

StackBlocks::StackBlocks(const TransformerStackOptions& stack, int64_t tokens,
                         int64_t memory_tokens, const ActivationOptions& options, ByteMeter& meter,
                         int64_t output_rows)
    : stack_(stack),
      in_segments_(options.training && options.recompute == Recompute::kEveryK),
      k_(static_cast<size_t>(in_segments_ ? options.recompute_every : stack.num_layers)) {
  layers_.reserve(static_cast<size_t>(stack.num_layers));
  for (int i = 0; i < stack.num_layers; ++i) {
    layers_.emplace_back(LayerOptionsOf(stack, i), tokens, memory_tokens, options, meter,
                         i + 1 == stack.num_layers ? output_rows : 0);
  }
}

StackBlocks::Block StackBlocks::Forward(const Block& x) {
  Block y = x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (in_segments_ && i % k_ == 0) segment_inputs_.push_back(y);
    y = layers_[i].Forward(y);
    if (in_segments_ && !IsKept(i / k_ * k_)) layers_[i].Release();
  }
  return y;
}

StackBlocks::Block StackBlocks::Backward(Block dy) {
  size_t end = layers_.size();
  while (end > 0) {
    const size_t begin = (end - 1) / k_ * k_;
    if (in_segments_) {
      Block x = std::move(segment_inputs_.back());
      segment_inputs_.pop_back();
      for (size_t i = begin; i < end && !IsKept(begin); ++i) x = layers_[i].Forward(x);
    }
    for (; end > begin; --end) dy = layers_[end - 1].Backward(dy);
  }
  return dy;
}

RecomputePlan CostsOfRecompute(const ModelCosts& costs, const ActivationOptions& activations) {
  const Recompute recompute = activations.recompute;
  const int every = activations.recompute_every;
  return {.recompute = recompute,
          .recompute_every = every,
          .peak_bytes = costs.peak_bytes(activations),
          .recomputed_flops = costs.flops(recompute, every).recomputed};
}

RecomputePlan PlanRecompute(const ModelCosts& costs, const ActivationOptions& activations,
                            int64_t budget_bytes) {
  std::vector<RecomputePlan> plans;
  const auto add = [&](Recompute recompute, int every) {
    ActivationOptions with = activations;
    with.recompute = recompute;
    with.recompute_every = every;
    plans.push_back(CostsOfRecompute(costs, with));
    plans.back().fits = plans.back().peak_bytes <= budget_bytes;
  };
  add(Recompute::kNone, RecomputePlan().recompute_every);
  add(Recompute::kCheap, RecomputePlan().recompute_every);
  for (int every = 1; every <= costs.deepest; ++every) add(Recompute::kEveryK, every);
  add(Recompute::kFull, RecomputePlan().recompute_every);
  // There are three groups: none, cheap, and policies that repeat products. An earlier group is at
  // least as fast as a later one.
  const auto faster = [](const RecomputePlan& a, const RecomputePlan& b) {
    const auto rank = [](const RecomputePlan& plan) {
      return std::min(static_cast<int>(plan.recompute), static_cast<int>(Recompute::kEveryK));
    };
    return std::make_tuple(!a.fits, rank(a), a.recomputed_flops, a.peak_bytes) <
           std::make_tuple(!b.fits, rank(b), b.recomputed_flops, b.peak_bytes);
  };
  const RecomputePlan& best = *std::min_element(plans.begin(), plans.end(), faster);
  if (best.fits) return best;
  return *std::min_element(
      plans.begin(), plans.end(),
      [](const RecomputePlan& a, const RecomputePlan& b) { return a.peak_bytes < b.peak_bytes; });
}

void CountAdapters(ParameterSet& named, ModelParameters& parameters) {
  named.Arrange();
  parameters.frozen = parameters.total();
  parameters.adapters = FrozenOf(named).factor_elements();
  parameters.composed = FrozenOf(named).composed_elements();
}

double BackwardFlopsOfFrozen(double forward_flops, double product_flops, double head_flops,
                             int64_t adapters, double tokens) {
  const double of_attention = forward_flops - product_flops - head_flops;
  return product_flops + 2.0 * (of_attention + head_flops) +
         4.0 * tokens * static_cast<double>(adapters);
}

}  // namespace dtrain
