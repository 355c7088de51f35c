// activation_peak.h - bytes of activations that a real model takes, for what is counted beforehand.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_ACTIVATION_PEAK_H_
#define DTRAIN_TESTS_TESTING_ACTIVATION_PEAK_H_

#include <cstdint>

#include "dtrain/device/arena.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/costs.h"
#include "testing/catch.h"
#include "testing/numbered_batch.h"
#include "testing/test_device.h"

namespace dtrain::testing {

// Of a forward and backward, or of an evaluation, which reads Outputs.
template <typename Outputs, typename Model, typename Batch>
int64_t MeasuredPeak(Model& model, const ActivationOptions& activations, const Batch& batch) {
  model.Allocate(TestDevice(), activations.compute_type, /*seed=*/1);
  Context ctx(TestDevice(), {.compute_type = activations.compute_type,
                             .recompute = activations.recompute,
                             .recompute_every = activations.recompute_every});
  ctx.set_training(activations.training);
  if (activations.training) {
    model.Forward(Numbered(batch), ctx);
    model.Backward(ctx);
  } else {
    Outputs outputs;
    model.Forward(batch, ctx, &outputs);
  }
  CHECK(ctx.activations().used() == 0);
  return static_cast<int64_t>(ctx.activations().peak());
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_ACTIVATION_PEAK_H_
