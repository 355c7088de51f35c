// header_examples.h - what the examples in public headers can use besides those headers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_INTEGRATION_HEADER_EXAMPLES_H_
#define DTRAIN_TESTS_INTEGRATION_HEADER_EXAMPLES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/dtrain.h"

namespace dtrain {

// Tells even sample numbers from odd ones, by one weight matrix.
class ExampleModel {
 public:
  ExampleModel() { parameters_.Allocate({}, DType::kFloat32, /*seed=*/1); }

  ParameterSet& parameters() { return parameters_; }

  LossSums Forward(const SampleRange& samples, Context& ctx) {
    std::vector<float> features;
    std::vector<int32_t> targets;
    for (int64_t sample = samples.begin; sample < samples.end; sample += samples.stride) {
      targets.push_back(static_cast<int32_t>(sample % 2));
      features.insert(features.end(), {sample % 2 == 0 ? 1.0f : -1.0f, 1.0f});
    }
    const HostList lists[] = {features};
    const auto rows = static_cast<int64_t>(targets.size());
    const Tensor hidden = ctx.Upload(std::span<const HostList>(lists)).front().Reshape({rows, 2});
    Tensor none;
    return loss_.Forward(hidden, ctx.Upload(targets), none, ctx);
  }
  // Forward() has computed the gradient.
  void Backward(Context& /*ctx*/) { weight_.GradientReady(); }

 private:
  ParameterSet parameters_;
  Parameter& weight_ =
      Scope(parameters_, "example").Add("weight", {2, 2}, Initializer::Normal(0.1f));
  OutputLoss loss_{weight_, {}};
};

struct HeaderExample {
  const char* header;
  Status (*run)(Runtime& runtime, Communicator& comm, Context& ctx, ExampleModel& model);
};
// Made by header_examples.py.
std::vector<HeaderExample> HeaderExamples();

}  // namespace dtrain

#endif  // DTRAIN_TESTS_INTEGRATION_HEADER_EXAMPLES_H_
