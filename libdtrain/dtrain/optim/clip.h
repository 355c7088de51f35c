// clip.h - clips gradients to a global norm, for loops that decide on the host.
// SPDX-License-Identifier: Apache-2.0
//
//   Adam adam(model.parameters(), {});
//   const ClippedGradients clipped = ClipGradients(
//       model.parameters(), /*gradient_scale=*/1.0 / 128, /*max_norm=*/1.0, ctx.stream());
//   if (clipped.is_finite) adam.Step(/*learning_rate=*/1e-3f, clipped.gradient_scale,
//   ctx.stream());
#ifndef DTRAIN_OPTIM_CLIP_H_
#define DTRAIN_OPTIM_CLIP_H_

#include "dtrain/device/stream.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

// The result of ClipGradients().
struct ClippedGradients {
  double norm = 0.0;            // norm of gradients * gradient_scale, before clipping
  float gradient_scale = 0.0f;  // the argument for Adam::Step()
  bool is_finite = true;  // false if a gradient or the scale is NaN or infinite; skip the update
                          // then
};

// Computes the factor that limits the norm of gradients * gradient_scale to max_norm (0 for no
// limit): Pascanu et al. 2013, algorithm 1. The gradients are not changed. After
// GradientReducer::Finish() all ranks get the same bits. Waits for the stream. The Trainer computes
// this on the device instead (optim/step_state.h).
ClippedGradients ClipGradients(ParameterSet& parameters, double gradient_scale, double max_norm,
                               Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPTIM_CLIP_H_
