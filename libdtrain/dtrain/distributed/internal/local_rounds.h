// local_rounds.h - ranks that update alone for a while, then take the mean of their weights.
// SPDX-License-Identifier: Apache-2.0
//
// Local SGD (Stich 2019) with Adam's moments averaged too. A round is `length` updates; its mean
// counts a rank by the tokens that it learned from in the round, w_k of all.
//
// A rank's second moment is of its own gradients, noisier than the mean gradient of all ranks that
// plain updates see. What a round adds to it is therefore freed of the noise that the mean is free
// of, so that rounds want the learning rate of plain updates. With g_k = s + noise of variance n,
//   mean of g_k^2 = s^2 + n,   (sum_k w_k g_k)^2 = s^2 + n sum_k w_k^2   (expectations),
// and n is seen in how far the ranks' first moments m_k lie from their mean m. After H updates
//   sum_k w_k E[(m_k - m)^2] = n (1 - sum_k w_k^2) a,   a = (1 - b1) / (1 + b1) (1 - b1^(2 H)).
// It is estimated for each parameter as a whole, whose elements share what they add between them.
//
// Nor is the mean of the ranks' weights where plain updates go: a rank divides by its own second
// moment, so that a gradient which one rank alone has meets its own root there, N times what the
// mean gradient's would be. What a rank has moved since the start of the round is therefore taken
// back to first moments and divided by the common second moment v instead:
//   w = w_start + sum_k w_k (w'_k - w_start) (sqrt(v_k) + e) / (sqrt(v) + e)
// with w'_k and v_k as rank k has them, and e Adam's epsilon before v's bias correction. Weight
// decay, a part of the move, goes along.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_LOCAL_ROUNDS_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_LOCAL_ROUNDS_H_

#include <cstdint>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"

namespace dtrain::internal {

class LocalRounds {
 public:
  // The first round begins here: moments are those of all ranks. All references must outlive this.
  LocalRounds(int64_t length, ParameterSet& parameters, Adam& adam, Communicator& comm);

  // This rank has issued an update of `tokens` tokens of its own; of none it makes no update.
  void Count(int64_t tokens) {
    tokens_ += tokens;
    updates_ += tokens > 0 ? 1 : 0;
    is_open_ = true;
  }
  // One of them was skipped: nothing was learned from its tokens.
  void Discount(int64_t tokens) {
    tokens_ -= tokens;
    updates_ -= tokens > 0 ? 1 : 0;
  }
  // Whether ranks have updated since the last mean.
  bool is_open() const { return is_open_; }
  // Whether a round ends `step` updates after the first began.
  bool EndsAt(int64_t step) const { return step % length_ == 0; }
  // Collective: weights, moments and the average of the weights become their means, the same bits
  // on all ranks. Waits for the device.
  void Average();

 private:
  void Average(Tensor& values, double share);
  // `own_second`: this rank's second moments before they become common.
  void AverageMoments(double share, const std::vector<float>& own_second);
  // Needs the common second moments.
  void AverageMoves(double share, const std::vector<float>& own_second);

  int64_t length_;
  ParameterSet& parameters_;
  Adam& adam_;
  Communicator& comm_;
  // At the start of the round, where all ranks have the same.
  std::vector<float> start_weights_;
  std::vector<float> start_second_;  // moments
  int64_t tokens_ = 0;
  int64_t updates_ = 0;
  bool is_open_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_LOCAL_ROUNDS_H_
