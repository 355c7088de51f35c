// loss_scaler.h - dynamic loss scaling for float16 gradients.
// SPDX-License-Identifier: Apache-2.0
//
// Micikevicius et al., "Mixed Precision Training" (2018), section 3.2: gradients are computed of
// scale * loss, so that small ones do not vanish in float16, and divided by it again in float32.
// An update whose gradients overflowed is skipped and the scale halved; after a run of good updates
// it doubles. The scale is a power of two, so scaling itself rounds nothing.
//
// The functions run on every device (constexpr), so that the decisions are the same ones.
#ifndef DTRAIN_OPTIM_LOSS_SCALER_H_
#define DTRAIN_OPTIM_LOSS_SCALER_H_

#include <cstdint>

namespace dtrain {

struct LossScalerOptions {
  bool on = false;  // off: the scale stays 1
  double initial = 65536.0;
  double minimum = 1.0;
  double maximum = 16777216.0;
  int64_t growth_interval = 2000;  // good updates in a row before the scale doubles
};

// What a checkpoint keeps of it.
struct LossScalerState {
  double scale = 0.0;
  int64_t good_updates = 0;
};

constexpr LossScalerState InitialLossScale(const LossScalerOptions& options) {
  return {.scale = options.on ? options.initial : 1.0, .good_updates = 0};
}

// The state after an update, or after one that was skipped because its gradients, summed over all
// ranks, were not finite.
constexpr LossScalerState UpdateLossScale(const LossScalerOptions& options, LossScalerState state,
                                          bool overflow) {
  if (!options.on) return state;
  if (overflow) {
    state.scale = state.scale / 2 < options.minimum ? options.minimum : state.scale / 2;
    state.good_updates = 0;
  } else if (++state.good_updates >= options.growth_interval) {
    state.scale = state.scale * 2 > options.maximum ? options.maximum : state.scale * 2;
    state.good_updates = 0;
  }
  return state;
}

// The state to go on with from a checkpoint's: one of another precision (scale 0, or off) counts
// for nothing.
constexpr LossScalerState RestoreLossScale(const LossScalerOptions& options,
                                           const LossScalerState& restored) {
  return options.on && restored.scale >= options.minimum ? restored : InitialLossScale(options);
}

}  // namespace dtrain

#endif  // DTRAIN_OPTIM_LOSS_SCALER_H_
