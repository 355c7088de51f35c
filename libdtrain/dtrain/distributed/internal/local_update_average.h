// local_update_average.h - averages weights and moments of ranks that updated alone for a while.
// SPDX-License-Identifier: Apache-2.0
//
// Local SGD (Stich 2019), with Adam's moments averaged too. Ranks make `length` updates from their
// own gradients, then take their mean. The mean weights rank k by w_k, its share of the tokens that
// all ranks learned from since the last mean.
//
// The second moment of a rank is that of its own gradients. They are noisier than the mean gradient
// of all ranks, which summed gradients would have used. The mean therefore removes that noise from
// what the local updates added to the second moment; so local updates work with the learning rate
// of summed gradients. If rank k's gradient is g_k = s + noise of variance n, then in expectation
//   mean of g_k^2 = s^2 + n,   (sum_k w_k g_k)^2 = s^2 + n sum_k w_k^2.
// The distances of the ranks' first moments m_k from their mean m show n. After H updates
//   sum_k w_k E[(m_k - m)^2] = n (1 - sum_k w_k^2) a,   a = (1 - b1) / (1 + b1) (1 - b1^(2 H)).
// It is estimated for each parameter as a whole. The elements of a parameter divide the removed
// noise in proportion to what the updates added to them.
//
// A plain mean of the weights would also differ from summed gradients: a rank divides by the root
// of its own second moment. A gradient that only one rank has meets its own root there, which is N
// times that of the mean gradient. Each rank's move since the last mean is therefore converted back
// to first moments, and divided by the common second moment v instead:
//   w = w_start + sum_k w_k (w'_k - w_start) (sqrt(v_k) + e) / (sqrt(v) + e)
// Here w'_k and v_k are the weights and second moment of rank k, and e is Adam's epsilon before the
// bias correction of v. Weight decay is part of the move.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_LOCAL_UPDATE_AVERAGE_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_LOCAL_UPDATE_AVERAGE_H_

#include <cstdint>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"

namespace dtrain::internal {

class LocalUpdateAverage {
 public:
  // Local updates begin here: all ranks have the same weights and moments. All references outlive
  // this.
  LocalUpdateAverage(int64_t length, ParameterSet& parameters, Adam& adam, Communicator& comm);

  // This rank has issued an update from `tokens` tokens of its own. Without tokens it makes none.
  void Count(int64_t tokens) {
    tokens_ += tokens;
    updates_ += tokens > 0 ? 1 : 0;
    is_pending_ = true;
  }
  // An update that was counted has been skipped: nothing was learned from its tokens.
  void Discount(int64_t tokens) {
    tokens_ -= tokens;
    updates_ -= tokens > 0 ? 1 : 0;
  }
  // Whether ranks have updated since the last mean, so that their weights differ.
  bool is_pending() const { return is_pending_; }
  // Whether a mean is due after the first `step` local updates.
  bool EndsAt(int64_t step) const { return step % length_ == 0; }
  // Collective: weights, moments and the average of the weights become their means, the same bits
  // on all ranks. Waits for the device.
  void Average();

 private:
  void Average(Tensor& values, double share);
  // `own_second`: this rank's second moments before they become common.
  void AverageMoments(double share, const std::vector<float>& own_second);
  // Afterwards: needs the common second moments.
  void AverageMoves(double share, const std::vector<float>& own_second);

  int64_t length_;
  ParameterSet& parameters_;
  Adam& adam_;
  Communicator& comm_;
  // After the last mean, the same on all ranks.
  std::vector<float> start_weights_;
  std::vector<float> start_second_;  // moments
  int64_t tokens_ = 0;
  int64_t updates_ = 0;
  bool is_pending_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_LOCAL_UPDATE_AVERAGE_H_
