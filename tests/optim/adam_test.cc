// adam_test.cc - updates of a whole parameter set: which weights decay, and their average.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/optim/adam.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "dtrain/optim/lr_schedule.h"
#include "testing/catch.h"
#include "testing/golden.h"
#include "testing/random_values.h"

namespace dtrain {
namespace {

// A matrix, a bias and the two vectors of a layer norm, with gradients.
struct Weights {
  explicit Weights(DType compute_type = DType::kFloat32) {
    const Scope scope(parameters, "layer");
    scope.Add("weight", {5, 7}, Initializer::XavierUniform());
    scope.Add("bias", {5}, Initializer::Constant(0.5f));
    scope.Add("norm.weight", {7}, Initializer::Constant(1.0f));
    scope.Add("table", {3, 7}, Initializer::Normal(0.1f));
    parameters.Allocate({}, compute_type, /*seed=*/1);
    SetGradients(1);
  }
  void SetGradients(uint64_t seed) {
    const auto values = RandomValues<float>(parameters.size(), seed);
    std::copy(values.begin(), values.end(), parameters.gradients().data<float>());
  }
  static std::vector<float> Copy(const Tensor& tensor) {
    return {tensor.data<float>(), tensor.data<float>() + tensor.elements()};
  }
  std::vector<float> Values(const char* name) { return Copy(parameters.Find(name)->master()); }

  ParameterSet parameters;
  Stream stream{Device{}};
};

TEST_CASE("weight decay shrinks matrices and leaves biases and layer norms alone") {
  Weights plain;
  Weights decayed;
  Adam adam(plain.parameters, {});
  Adam adamw(decayed.parameters, {.weight_decay = 0.1f});
  const std::vector<float> before = plain.Values("layer.weight");
  adam.Step(0.01f, 1.0f, plain.stream);
  adamw.Step(0.01f, 1.0f, decayed.stream);
  CHECK(decayed.Values("layer.bias") == plain.Values("layer.bias"));
  CHECK(decayed.Values("layer.norm.weight") == plain.Values("layer.norm.weight"));
  const std::vector<float> without = plain.Values("layer.weight");
  const std::vector<float> with = decayed.Values("layer.weight");
  // Decoupled (Loshchilov and Hutter 2019): the weight loses learning rate * decay of itself.
  for (size_t i = 0; i < with.size(); ++i) {
    CHECK(with[i] == Approx(without[i] - 0.01f * 0.1f * before[i]).margin(1e-7));
  }
  CHECK(decayed.Values("layer.table") != plain.Values("layer.table"));
}

TEST_CASE("several updates follow the formula of the paper") {
  Weights weights;
  Adam adam(weights.parameters, {.beta1 = 0.9f, .beta2 = 0.98f, .epsilon = 1e-9f});
  std::vector<double> expected(static_cast<size_t>(weights.parameters.size()));
  const std::vector<float> start = Weights::Copy(weights.parameters.weights());
  std::copy(start.begin(), start.end(), expected.begin());
  std::vector<double> m(expected.size()), v(expected.size());
  for (int t = 1; t <= 5; ++t) {
    weights.SetGradients(static_cast<uint64_t>(t));
    const std::vector<float> g = Weights::Copy(weights.parameters.gradients());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double gradient = 0.25 * double{g[i]};  // scaled as by a mean over tokens
      m[i] = 0.9 * m[i] + 0.1 * gradient;
      v[i] = 0.98 * v[i] + 0.02 * gradient * gradient;
      expected[i] -= 1e-3 * (m[i] / (1.0 - std::pow(0.9, t))) /
                     (std::sqrt(v[i] / (1.0 - std::pow(0.98, t))) + 1e-9);
    }
    adam.Step(1e-3f, 0.25f, weights.stream);
  }
  CHECK(adam.steps() == 5);
  const std::vector<float> actual = Weights::Copy(weights.parameters.weights());
  for (const Parameter* parameter : weights.parameters.in_backward_order()) {
    for (int64_t i = 0; i < parameter->shape().elements(); ++i) {
      const auto at = static_cast<size_t>(parameter->offset() + i);
      CHECK(double{actual[at]} == Approx(expected[at]).margin(1e-6));
    }
  }
}

TEST_CASE("the average follows the weights, faster at first, and swaps places with them") {
  Weights weights(DType::kBFloat16);
  Adam adam(weights.parameters, {.ema_decay = 0.3f});
  std::vector<float> expected = Weights::Copy(weights.parameters.weights());
  for (int t = 1; t <= 4; ++t) {
    weights.SetGradients(static_cast<uint64_t>(t));
    adam.Step(0.01f, 1.0f, weights.stream);
    const float decay =
        std::min(0.3f, (1.0f + static_cast<float>(t)) / (10.0f + static_cast<float>(t)));
    const std::vector<float> now = Weights::Copy(weights.parameters.weights());
    for (size_t i = 0; i < now.size(); ++i) expected[i] += (1.0f - decay) * (now[i] - expected[i]);
  }
  const std::vector<float> average = Weights::Copy(adam.average());
  for (size_t i = 0; i < average.size(); ++i) {
    CHECK(average[i] == Approx(expected[i]).margin(1e-6));
  }
  const std::vector<float> trained = Weights::Copy(weights.parameters.weights());
  adam.SwapAverage(weights.stream);
  CHECK(Weights::Copy(weights.parameters.weights()) == average);
  CHECK(Weights::Copy(adam.average()) == trained);
  // Layers multiply with the average now.
  const BFloat16* const narrow = weights.parameters.compute_weights().data<BFloat16>();
  CHECK(static_cast<float>(narrow[0]) == Approx(average[0]).epsilon(1e-2));
  adam.SwapAverage(weights.stream);
  CHECK(Weights::Copy(weights.parameters.weights()) == trained);
}

TEST_CASE("without a decay of the average there is none and swapping does nothing") {
  Weights weights;
  Adam adam(weights.parameters, {});
  CHECK_FALSE(adam.average());
  const std::vector<float> before = Weights::Copy(weights.parameters.weights());
  adam.SwapAverage(weights.stream);
  CHECK(Weights::Copy(weights.parameters.weights()) == before);
}

// The model of tests/golden/make_optimizer_goldens.py.
struct GoldenWeights {
  explicit GoldenWeights(const testing::Golden& golden) {
    const Scope scope(parameters, "");
    for (const auto& [name, shape] :
         {std::pair<const char*, Shape>{"embeddings.word_embeddings.weight", {7, 5}},
          {"dense.weight", {6, 5}},
          {"dense.bias", {6}},
          {"LayerNorm.weight", {5}},
          {"LayerNorm.bias", {5}}}) {
      scope.Add(name, shape, Initializer::Constant(0.0f));
    }
    parameters.Allocate(testing::TestDevice(), DType::kFloat32, /*seed=*/1);
    testing::LoadGoldenWeights(golden, parameters, "start.");
  }
  // Sets the gradients of an update and returns their norm.
  double SetGradients(const testing::Golden& golden, int t) {
    double squares = 0.0;
    for (Parameter* parameter : parameters.in_backward_order()) {
      const auto values = golden.Floats("gradient." + std::to_string(t) + "." + parameter->name());
      testing::SetElements(values, parameter->gradient());
      for (const float value : values) squares += double{value} * double{value};
    }
    return std::sqrt(squares);
  }

  ParameterSet parameters;
};

TEST_CASE("updates are those of PyTorch's AdamW, Google's for BERT and NVIDIA's LAMB") {
  struct Kind {
    std::string name;
    double power;  // of the schedule
    AdamConfig config;
  };
  const AdamConfig base = {.beta2 = 0.999f, .epsilon = 1e-6f, .weight_decay = 0.1f};
  AdamConfig adamw = base;
  adamw.epsilon = 1e-8f;
  AdamConfig bert = base;
  bert.bias_correction = false;
  AdamConfig lamb = base;
  lamb.trust_ratio = AdamConfig::TrustRatio::kDecayed;
  AdamConfig nvlamb = base;
  nvlamb.trust_ratio = AdamConfig::TrustRatio::kAll;
  const testing::Golden golden("optimizer_steps");
  for (const Kind& kind : {Kind{"adamw", 1.0, adamw}, Kind{"bert_adamw", 1.0, bert},
                           Kind{"lamb", 0.5, lamb}, Kind{"nvlamb", 0.5, nvlamb}}) {
    GoldenWeights weights(golden);
    Stream stream(testing::TestDevice());
    Adam adam(weights.parameters, kind.config);
    const std::vector<float> rates = golden.Floats(kind.name + ".rates");
    for (int t = 0; t < 6; ++t) {
      const LrScheduleOptions schedule = {.kind = LrScheduleOptions::Kind::kPolynomialTotal,
                                          .base = 0.02,
                                          .warmup_steps = 2,
                                          .total_steps = 7,
                                          .power = kind.power};
      const auto rate = static_cast<float>(LearningRate(schedule, t, 0.0));
      CHECK(rate == Approx(rates.at(static_cast<size_t>(t))));
      const double norm = weights.SetGradients(golden, t);
      adam.Step(rate, static_cast<float>(1.0 / std::max(1.0, norm)), stream);
      if (t != 0 && t != 5) continue;
      for (Parameter* parameter : weights.parameters.in_backward_order()) {
        const std::string name = kind.name + "." + std::to_string(t + 1) + "." + parameter->name();
        INFO(name);
        // 1 - beta2 of a float beta2 is 1.3e-5 of itself off, which only bias correction divides
        // out.
        CHECK(testing::GoldenError(golden, name, parameter->master()) < 1e-5);
      }
    }
    const size_t ratios = kind.config.trust_ratio == AdamConfig::TrustRatio::kNone ? 0 : 5;
    CHECK(adam.TrustRatios(stream).size() == ratios);
    // A shard of everything is no shard.
    Adam whole(weights.parameters, kind.config, {{0, 8}, {8, weights.parameters.size()}});
    whole.Step(0.1f, 1.0f, stream);
    CHECK(whole.TrustRatios(stream).size() == ratios);
  }
}

}  // namespace
}  // namespace dtrain
