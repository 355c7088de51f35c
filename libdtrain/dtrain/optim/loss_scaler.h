// loss_scaler.h - dynamic loss scaling for float16 gradients.
// SPDX-License-Identifier: Apache-2.0
//
// Micikevicius et al., "Mixed Precision Training" (2018), section 3.2: gradients are computed of
// scale * loss, so that small ones do not vanish in float16, and divided by it again in float32.
// An update whose gradients overflowed is skipped and the scale halved; after a run of good updates
// it doubles. The scale is a power of two, so scaling itself rounds nothing.
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

class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options)
      : options_(options), state_{.scale = options.on ? options.initial : 1.0} {}

  double scale() const { return state_.scale; }

  // After an update, or after one that was skipped because its gradients, summed over all ranks,
  // were not finite.
  void Update(bool overflow) {
    if (!options_.on) return;
    if (overflow) {
      state_.scale = state_.scale / 2 < options_.minimum ? options_.minimum : state_.scale / 2;
      state_.good_updates = 0;
    } else if (++state_.good_updates >= options_.growth_interval) {
      state_.scale = state_.scale * 2 > options_.maximum ? options_.maximum : state_.scale * 2;
      state_.good_updates = 0;
    }
  }

  const LossScalerState& state() const { return state_; }
  // A state of another precision (scale 0) leaves this one as it is.
  void Restore(const LossScalerState& state) {
    if (options_.on && state.scale >= options_.minimum) state_ = state;
  }

 private:
  LossScalerOptions options_;
  LossScalerState state_;
};

}  // namespace dtrain

#endif  // DTRAIN_OPTIM_LOSS_SCALER_H_
