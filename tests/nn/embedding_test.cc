// embedding_test.cc - the embedding layer: positions of a packed batch, tables, gradients, misuse.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/embedding.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dtrain/device/arena.h"
#include "testing/catch.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr int64_t kHidden = 6;
constexpr TokenEmbeddingOptions kOptions = {.vocab_size = 5, .hidden_size = kHidden, .zero_id = 4};
const std::vector<int32_t> kIds = {3, 1, 3, 0, 4};

Sequences TwoSequences() { return Sequences({0, 2, 5}); }

// One embedding with a table of its own, and how often it reported that ready.
struct Layer {
  explicit Layer(const TokenEmbeddingOptions& options = kOptions)
      : embedding(Scope(parameters, "embed"), options, positions) {
    parameters.Allocate({}, DType::kFloat32, /*seed=*/3);
    parameters.SetReadyListener([this](const Parameter&) { ++ready; });
    ctx.set_training(true);
  }

  ParameterSet parameters;
  SinusoidalPositions positions{{.max_length = 4, .hidden_size = kHidden}};
  TokenEmbedding embedding;
  Context ctx;
  int ready = 0;
};

TEST_CASE("a table starts with the deviation that makes embedded tokens as large as positions") {
  ParameterSet parameters;
  const TokenEmbeddingOptions options{.vocab_size = 600, .hidden_size = 64, .zero_id = 599};
  const Parameter& table = TokenEmbedding::AddTable(Scope(parameters, "embed"), options);
  parameters.Allocate({}, DType::kFloat32, /*seed=*/3);
  const Values values = ValuesOf(table.value());
  double squares = 0.0;
  for (const double value : values) squares += value * value;
  // hidden_size^-0.5, which the layer multiplies by hidden_size^0.5 (Vaswani et al. 2017, 3.4).
  CHECK(std::sqrt(squares / (599.0 * 64.0)) == Approx(0.125).epsilon(0.02));
  CHECK(std::all_of(values.end() - 64, values.end(), [](double value) { return value == 0.0; }));
}

TEST_CASE("positions of a packed batch start anew with each sequence") {
  Layer layer;
  const Values x = ValuesOf(layer.embedding.Forward(kIds, TwoSequences(), layer.ctx));
  const Values table = ValuesOf(layer.parameters.Find("embed.weight")->value());
  const Values positions = ValuesOf(layer.positions.Table(layer.ctx));
  const std::vector<size_t> places = {0, 1, 0, 1, 2};
  for (size_t t = 0; t < kIds.size(); ++t) {
    for (size_t c = 0; c < kHidden; ++c) {
      const double token = kIds[t] == 4 ? 0.0 : table[static_cast<size_t>(kIds[t]) * kHidden + c];
      CHECK(x[t * kHidden + c] ==
            Approx(std::sqrt(6.0) * token + positions[places[t] * kHidden + c]).margin(1e-6));
    }
  }
}

TEST_CASE("a decoding step embeds as the whole sequence does") {
  Layer layer;
  layer.ctx.set_training(false);
  const std::vector<int32_t> ids = {2, 0, 1};
  const Tensor whole = layer.embedding.Forward(ids, Sequences({0, 3}), layer.ctx);
  for (int32_t t = 0; t < 3; ++t) {
    const Tensor step =
        layer.embedding.ForwardAt(std::span(ids).subspan(static_cast<size_t>(t), 1), t, layer.ctx);
    CHECK(ValuesOf(step) == ValuesOf(whole.Rows(t, t + 1)));
  }
}

TEST_CASE("backward adds each token's gradient to its row and none to the zero row") {
  Layer layer;
  layer.embedding.Forward(kIds, TwoSequences(), layer.ctx);
  const Tensor dy = Random({5, kHidden}, DType::kFloat32, 1);
  layer.embedding.Backward(dy, layer.ctx);
  const Values gradient = ValuesOf(layer.embedding.table().gradient());
  const Values d = ValuesOf(dy);
  for (size_t c = 0; c < kHidden; ++c) {
    CHECK(gradient[3 * kHidden + c] ==
          Approx(std::sqrt(6.0) * (d[c] + d[2 * kHidden + c])).margin(1e-6));
    CHECK(gradient[1 * kHidden + c] == Approx(std::sqrt(6.0) * d[kHidden + c]).margin(1e-6));
    CHECK(gradient[2 * kHidden + c] == 0.0);
    CHECK(gradient[4 * kHidden + c] == 0.0);
  }
  CHECK(layer.ready == 1);
  CHECK(layer.ctx.activations().used() == 0);
}

TEST_CASE("a shared table collects the gradients of both embeddings and is reported by its owner") {
  ParameterSet parameters;
  const Scope scope(parameters, "model");
  SinusoidalPositions positions({.max_length = 4, .hidden_size = kHidden});
  Parameter& table = TokenEmbedding::AddTable(scope / "shared", kOptions);
  TokenEmbedding source(scope, kOptions, positions, table);
  TokenEmbedding target(scope, kOptions, positions, table);
  parameters.Allocate({}, DType::kFloat32, /*seed=*/3);
  int ready = 0;
  parameters.SetReadyListener([&](const Parameter&) { ++ready; });
  Context ctx;
  ctx.set_training(true);
  const std::vector<int32_t> ids = {2};
  for (TokenEmbedding* embedding : {&source, &target}) {
    embedding->Forward(ids, Sequences({0, 1}), ctx);
    embedding->Backward(Filled({1, kHidden}, DType::kFloat32, 1.0), ctx);
  }
  CHECK(ValueAt(table.gradient(), 2 * kHidden) == Approx(2.0 * std::sqrt(6.0)));
  CHECK(ready == 0);
}

TEST_CASE("embeddings of one model draw different dropout") {
  ParameterSet parameters;
  const Scope scope(parameters, "model");
  TokenEmbeddingOptions options = kOptions;
  options.dropout = 0.5f;
  SinusoidalPositions positions({.max_length = 64, .hidden_size = kHidden});
  Parameter& table = TokenEmbedding::AddTable(scope, options);
  TokenEmbedding first(scope, options, positions, table);
  TokenEmbedding second(scope, options, positions, table);
  parameters.Allocate({}, DType::kFloat32, /*seed=*/3);
  Context ctx;
  ctx.set_training(true);
  const std::vector<int32_t> ids(64, 1);
  const Sequences one({0, 64});
  const Values a = ValuesOf(first.Forward(ids, one, ctx));
  CHECK(a == ValuesOf(first.Forward(ids, one, ctx)));
  CHECK(a != ValuesOf(second.Forward(ids, one, ctx)));
}

TEST_CASE("misuse of an embedding is named") {
  Layer layer;
  const auto forward = [&](const std::vector<int32_t>& ids, std::vector<int32_t> offsets) {
    return MessageOf(
        [&] { layer.embedding.Forward(ids, Sequences(std::move(offsets)), layer.ctx); });
  };
  CHECK_THAT(forward({1, 1, 1, 1, 1}, {0, 5}),
             Catch::Contains("a sequence is longer than the table of positions"));
  CHECK_THAT(forward({1, 1}, {0, 1}), Catch::Contains("2 vs 1"));
  Layer fresh;
  const Tensor dy = Filled({1, kHidden}, DType::kFloat32, 1.0);
  CHECK_THAT(MessageOf([&] { fresh.embedding.Backward(dy, fresh.ctx); }),
             Catch::Contains("Backward() without Forward()"));
}

}  // namespace
}  // namespace dtrain
