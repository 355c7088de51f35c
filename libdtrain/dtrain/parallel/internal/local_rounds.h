// local_rounds.h - ranks that update alone for a while, then take the mean of their weights.
// SPDX-License-Identifier: Apache-2.0
//
// Local SGD (Stich 2019) with Adam's moments averaged too. A round is `length` updates; its mean
// counts a rank by the tokens that it learned from in the round.
#ifndef DTRAIN_PARALLEL_INTERNAL_LOCAL_ROUNDS_H_
#define DTRAIN_PARALLEL_INTERNAL_LOCAL_ROUNDS_H_

#include <cstdint>

#include "dtrain/comm/communicator.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"

namespace dtrain::internal {

class LocalRounds {
 public:
  // All references must outlive this.
  LocalRounds(int64_t length, ParameterSet& parameters, Adam& adam, Communicator& comm)
      : length_(length), parameters_(parameters), adam_(adam), comm_(comm) {}

  // This rank has issued an update of `tokens` tokens of its own.
  void Count(int64_t tokens) {
    tokens_ += tokens;
    is_open_ = true;
  }
  // One of them was skipped: nothing was learned from its tokens.
  void Discount(int64_t tokens) { tokens_ -= tokens; }
  // Whether ranks have updated since the last mean.
  bool is_open() const { return is_open_; }
  // Whether a round ends `step` updates after the first began.
  bool EndsAt(int64_t step) const { return step % length_ == 0; }
  // Collective: weights, moments and the average of the weights become their means, the same bits
  // on all ranks. Waits for the device.
  void Average();

 private:
  void Average(Tensor& values, float share);

  int64_t length_;
  ParameterSet& parameters_;
  Adam& adam_;
  Communicator& comm_;
  int64_t tokens_ = 0;
  bool is_open_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_PARALLEL_INTERNAL_LOCAL_ROUNDS_H_
