// local_updates.h - local SGD: ranks update alone for a while, then average their weights.
// SPDX-License-Identifier: Apache-2.0
//
// Local SGD (Stich 2019) with Adam's moments averaged too. A round is `length` updates. In its mean
// a rank counts by the share w_k of the tokens that it learned from in the round.
//
// A rank's second moment is that of its own gradients, which are noisier than the mean gradient of
// all ranks that plain updates see. So the part that a round adds to it is freed of the noise that
// the mean gradient does not have. Then rounds can use the learning rate of plain updates. With
// g_k = s + noise of variance n,
//   mean of g_k^2 = s^2 + n,   (sum_k w_k g_k)^2 = s^2 + n sum_k w_k^2   (expectations).
// The distances of the ranks' first moments m_k from their mean m show n. After H updates
//   sum_k w_k E[(m_k - m)^2] = n (1 - sum_k w_k^2) a,   a = (1 - b1) / (1 + b1) (1 - b1^(2 H)).
// n is estimated for each parameter as a whole; its elements share their additions accordingly.
//
// The mean of the ranks' weights differs from the result of plain updates too. A rank divides by
// its own second moment. A gradient that only one rank has is divided by its own root there, which
// gives N times the move of the mean gradient. Therefore a rank's move since the start of the round
// is converted back to first moments, and divided by the common second moment v:
//   w = w_start + sum_k w_k (w'_k - w_start) (sqrt(v_k) + e) / (sqrt(v) + e)
// with w'_k and v_k of rank k, and e Adam's epsilon before v's bias correction. Weight decay is
// part of the move.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_LOCAL_UPDATES_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_LOCAL_UPDATES_H_

#include <cstdint>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"

namespace dtrain::internal {

class LocalUpdates {
 public:
  // The first round begins: all ranks have the same moments. All references must outlive this.
  LocalUpdates(int64_t length, ParameterSet& parameters, Adam& adam, Communicator& comm);

  // This rank has issued an update of `tokens` tokens of its own. Without tokens it makes no
  // update.
  void Count(int64_t tokens) {
    tokens_ += tokens;
    updates_ += tokens > 0 ? 1 : 0;
    is_open_ = true;
  }
  // One of these updates was skipped: nothing was learned from its tokens.
  void Discount(int64_t tokens) {
    tokens_ -= tokens;
    updates_ -= tokens > 0 ? 1 : 0;
  }
  // True between two averages, when ranks hold different weights.
  bool is_open() const { return is_open_; }
  // True if a round ends `step` updates after the beginning of the first one.
  bool EndsAt(int64_t step) const { return step % length_ == 0; }
  // Replaces weights, moments and the average of the weights by their means, with the same bits on
  // all ranks. Waits for the device. All ranks call it.
  void Average();

 private:
  void Average(Tensor& values, double share);
  // `own_second`: this rank's second moments before they become common.
  void AverageMoments(double share, const std::vector<float>& own_second);
  // Call it once the second moments are common.
  void AverageMoves(double share, const std::vector<float>& own_second);

  int64_t length_;
  ParameterSet& parameters_;
  Adam& adam_;
  Communicator& comm_;
  // The values at the start of the round, the same on all ranks.
  std::vector<float> start_weights_;
  std::vector<float> start_second_;  // moments
  int64_t tokens_ = 0;
  int64_t updates_ = 0;
  bool is_open_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_LOCAL_UPDATES_H_
