// norm_meter_test.cc - norms of groups are those of all elements, or near them in large tensors.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/norm_meter.h"

#include <cmath>
#include <vector>

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/nn/parameter.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("parameters are grouped by layer and part") {
  CHECK(GroupOfParameter("model.encoder.layers.0.self_attn.q_proj.weight") ==
        "model.encoder.layers.0.attention");
  CHECK(GroupOfParameter("bert.encoder.layer.11.attention.output.LayerNorm.bias") ==
        "bert.encoder.layer.11.norms");
  CHECK(GroupOfParameter("model.decoder.layers.3.fc1.weight") ==
        "model.decoder.layers.3.feed_forward");
  CHECK(GroupOfParameter("model.shared.weight") == "model.shared");
  CHECK(GroupOfParameter("weight") == "weight");
}

TEST_CASE("norms are those of the elements, in a large tensor of evenly spread ones") {
  ParameterSet parameters;
  const Scope model(parameters, "model");
  Parameter& small = (model / "layers.0").Add("fc1.weight", {8, 4}, Initializer::Normal(1.0f));
  Parameter& large = model.Add("shared.weight", {4000, 16}, Initializer::Normal(1.0f));
  parameters.Allocate(Device(), DType::kFloat32, /*seed=*/1);
  Stream stream;
  const auto fill = [&](Tensor& tensor, float value) {
    Upload<float>(std::vector<float>(static_cast<size_t>(tensor.elements()), value), tensor,
                  stream);
  };
  fill(small.master(), 2.0f);
  fill(large.master(), 0.5f);
  fill(small.gradient(), 3.0f);
  fill(large.gradient(), 0.0f);
  NormMeter meter(parameters, /*every=*/10);
  CHECK_FALSE(meter.IsDue(9));
  CHECK(meter.IsDue(10));
  CHECK_FALSE(NormMeter(parameters, 0).IsDue(10));
  meter.Before(stream);
  fill(small.master(), 2.2f);
  fill(large.master(), 0.5f + 0.001f);
  meter.After(10, stream);
  CHECK(meter.Take(9, 1.0).empty());
  const std::vector<GroupNorms> norms = meter.Take(10, /*gradient_norm=*/7.0);
  REQUIRE(norms.size() == 2);
  CHECK(norms[0].group == "model.layers.0.feed_forward");
  CHECK(norms[0].weight == Approx(2.0 * std::sqrt(32.0)));
  CHECK(norms[0].update_share == Approx(0.1));
  CHECK(norms[0].gradient == Approx(7.0));  // all of it
  CHECK(norms[1].group == "model.shared");
  CHECK(norms[1].weight == Approx(0.5 * std::sqrt(64000.0)));
  CHECK(norms[1].update_share == Approx(0.002).epsilon(1e-3));
  CHECK(norms[1].gradient == 0.0);
  CHECK(meter.Take(10, 7.0).empty());
}

}  // namespace
}  // namespace dtrain
