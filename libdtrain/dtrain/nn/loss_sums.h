// loss_sums.h - what a loss adds up, and where it takes its scale from.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_NN_LOSS_SUMS_H_
#define DTRAIN_NN_LOSS_SUMS_H_

#include <cstdint>

#include "dtrain/nn/context.h"

namespace dtrain {

// Sums over target tokens, or over texts; ranks and micro-batches add theirs and divide once.
struct LossSums {
  double loss = 0.0;  // what is trained: label-smoothed or weighted, nats
  double nll = 0.0;   // -log p(target), nats
  int64_t tokens = 0;

  LossSums& operator+=(const LossSums& other) {
    loss += other.loss;
    nll += other.nll;
    tokens += other.tokens;
    return *this;
  }
};

// Of one pass forward. While training with ctx.loss(), the trainer's scale, which lies on the
// device, multiplies the losses before backward, and the sums go to the device: those returned are
// 0, the tokens apart, and the host waits for nothing. Without it the scale is 1.
class LossAccount {
 public:
  explicit LossAccount(Context& ctx);

  // [1], float32.
  const Tensor& scale() const { return scale_; }
  // The sums of these values, float32, of `tokens` targets; nll may be absent. May be called
  // several times in a pass.
  LossSums Add(const Tensor& loss, const Tensor& nll, int64_t tokens);

 private:
  Context& ctx_;
  bool for_trainer_;
  Tensor scale_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_LOSS_SUMS_H_
