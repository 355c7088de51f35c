// loss_sums.h - adds up the losses of a forward pass, and knows the loss scale.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_NN_LOSS_SUMS_H_
#define DTRAIN_NN_LOSS_SUMS_H_

#include <cstdint>

#include "dtrain/nn/context.h"

namespace dtrain {

// Collects the loss of one forward pass. If ctx.loss() is set while training, the trainer's scale,
// which is in device memory, multiplies the losses before backward, and the sums are added to the
// trainer's tensors. The returned sums are then 0, except for tokens, and the host does not wait.
// Otherwise the scale is 1.
class LossAccount {
 public:
  explicit LossAccount(Context& ctx);

  // [1], float32.
  const Tensor& scale() const { return scale_; }
  // Adds the sums of `loss` and `nll`, float32, for `tokens` targets. nll may be absent. May be
  // called several times in a pass.
  LossSums Add(const Tensor& loss, const Tensor& nll, int64_t tokens);

 private:
  Context& ctx_;
  bool for_trainer_;
  Tensor scale_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_LOSS_SUMS_H_
