// byte_model.cc - forward, its mirror image, and one byte after another.
// SPDX-License-Identifier: Apache-2.0
#include "byte_model.h"

#include <algorithm>
#include <cmath>

using namespace dtrain;

namespace {

// Draws from softmax(logits / temperature).
int32_t Draw(const float* logits, float temperature, RandomStream& random) {
  const float highest = *std::max_element(logits, logits + kBegin);
  std::vector<double> sums;
  double sum = 0.0;
  for (int32_t id = 0; id < kBegin; ++id) {
    sum += std::exp(double{logits[id] - highest} / double{temperature});
    sums.push_back(sum);
  }
  const double drawn = double{random.NextUniform()} * sum;
  const auto found = std::upper_bound(sums.begin(), sums.end(), drawn);
  return std::min(static_cast<int32_t>(found - sums.begin()), kBegin - 1);
}

}  // namespace

void ByteBatch::Add(std::string_view text, int32_t number) {
  int32_t previous = kBegin;
  for (const char character : text) {
    ids.push_back(previous);
    previous = static_cast<unsigned char>(character);
    targets.push_back(previous);
  }
  offsets.push_back(static_cast<int32_t>(ids.size()));
  first_numbers.push_back(number);
}

ByteModel::ByteModel(const ByteModelOptions& options, const Device& device)
    : options_(options),
      positions_({.max_length = options.window, .hidden_size = options.hidden_size}),
      embedding_(scope_ / "embedding",
                 {.vocab_size = kByteVocabulary,
                  .hidden_size = options.hidden_size,
                  .dropout = options.dropout},
                 positions_),
      layers_(scope_, {.layer = {.hidden_size = options.hidden_size,
                                 .ffn_size = 4 * options.hidden_size,
                                 .num_heads = options.num_heads,
                                 .activation = Activation::kGeluTanh,
                                 .pre_norm = true,
                                 .dropout = options.dropout,
                                 .causal = true},
                       .num_layers = options.num_layers}),
      final_norm_(scope_, "final_norm", options.hidden_size, 1e-5f),
      loss_(embedding_.table(), {}) {
  parameters_.Allocate(device, DType::kFloat32, /*seed=*/1);
}

LayerInputs ByteModel::Inputs() const { return {*sequences_, Tensor(), *sequences_}; }

LossSums ByteModel::Forward(const ByteBatch& batch, Context& ctx) {
  sequences_ = batch.sequences();
  if (ctx.training()) sequences_->set_row_numbers(ctx.Upload(sequences_->NumberRows()));
  Tensor x = embedding_.Forward(batch.ids, *sequences_, ctx);
  x = final_norm_.Forward(layers_.Forward(x, Inputs(), ctx), ctx);
  return loss_.Forward(x, ctx.Upload(batch.targets), none_, ctx);
}

void ByteModel::Backward(Context& ctx) {
  const Tensor dx = final_norm_.Backward(loss_.Backward(), none_, ctx);
  embedding_.Backward(layers_.Backward(dx, Inputs(), none_, ctx), ctx);
  sequences_.reset();  // and its numbers on the device
}

std::string ByteModel::Generate(std::string_view prompt, Context& ctx) {
  std::vector<LayerCache> caches(layers_.size());
  for (size_t i = 0; i < caches.size(); ++i) {
    layers_.layer(i).StartDecoding(none_, /*slots=*/options_.window, caches[i], ctx);
  }
  const Sequences one({0, 1});
  RandomStream random({.seed = 1});
  std::string text(prompt);
  std::vector<int32_t> slots;
  int32_t id = kBegin;
  for (int32_t position = 0; position < options_.window; ++position) {
    slots.push_back(position);  // this position sees itself and those before
    const StepInputs inputs{.slots = ctx.Upload(slots).Reshape({1, position + 1}),
                            .first_slot = position,
                            .rows = one,
                            .memory_sequences = one};
    Tensor x = embedding_.ForwardAt(std::span(&id, 1), position, ctx);
    for (size_t i = 0; i < caches.size(); ++i) {
      x = layers_.layer(i).ForwardStep(x, inputs, caches[i], ctx);
    }
    const Tensor logits = ToHost(loss_.Logits(final_norm_.Forward(x, ctx), ctx), ctx.stream());
    const auto at = static_cast<size_t>(position);
    if (at == text.size()) {
      text.push_back(static_cast<char>(Draw(logits.data<float>(), /*temperature=*/0.7f, random)));
    }
    id = static_cast<unsigned char>(text[at]);
  }
  return text;
}
