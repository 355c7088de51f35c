// loss_scaler.h - dynamic loss scaling for float16 gradients.
// SPDX-License-Identifier: Apache-2.0
//
// Micikevicius et al., "Mixed Precision Training" (2018), section 3.2. Gradients are computed from
// scale * loss, so that small ones do not become 0 in float16, and are divided by the scale in
// float32. If gradients overflow, the update is skipped and the scale halved. After a number of
// good updates in a row the scale doubles. It is a power of two, so scaling does not round.
//
// The functions are constexpr, so that every device makes the same decisions.
#ifndef DTRAIN_OPTIM_LOSS_SCALER_H_
#define DTRAIN_OPTIM_LOSS_SCALER_H_

#include <cstdint>

namespace dtrain {

struct LossScalerOptions {
  bool on = false;  // false: the scale stays 1
  double initial = 65536.0;
  double minimum = 1.0;
  double maximum = 16777216.0;
  int64_t growth_interval = 2000;  // good updates in a row before the scale doubles
};

// The state that a checkpoint stores.
struct LossScalerState {
  double scale = 0.0;
  int64_t good_updates = 0;
};

constexpr LossScalerState InitialLossScale(const LossScalerOptions& options) {
  return {.scale = options.on ? options.initial : 1.0, .good_updates = 0};
}

// Returns the state after an update. `overflow`: the update was skipped because its gradients,
// summed over all ranks, were not finite.
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

// Returns the state to continue with after loading a checkpoint. A state from another precision
// (scale 0, or scaling off) is ignored.
constexpr LossScalerState RestoreLossScale(const LossScalerOptions& options,
                                           const LossScalerState& restored) {
  return options.on && restored.scale >= options.minimum ? restored : InitialLossScale(options);
}

}  // namespace dtrain

#endif  // DTRAIN_OPTIM_LOSS_SCALER_H_
