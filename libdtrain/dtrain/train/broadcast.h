// broadcast.h - makes tensors equal on all ranks, and tells whether they still are.
// SPDX-License-Identifier: Apache-2.0
//
//   BroadcastTensors({flat_parameters, adam_m, adam_v}, comm);
//   DT_RETURN_IF_ERROR(CheckReplicas({flat_parameters}, "after step 1200", comm));
#ifndef DTRAIN_TRAIN_BROADCAST_H_
#define DTRAIN_TRAIN_BROADCAST_H_

#include <initializer_list>
#include <span>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"
#include "dtrain/tensor/tensor.h"

namespace dtrain {

// Copies contiguous CPU tensors of rank `root` into those of all ranks. Shapes and types are the
// same on all ranks (the start-up contract sees to that).
void BroadcastTensors(std::span<const Tensor> tensors, Communicator& comm, int root = 0);
inline void BroadcastTensors(std::initializer_list<Tensor> tensors, Communicator& comm,
                             int root = 0) {
  BroadcastTensors(std::span<const Tensor>(tensors.begin(), tensors.size()), comm, root);
}

// The weights of a model, also in the compute type.
void BroadcastParameters(ParameterSet& parameters, Communicator& comm, int root = 0);
// The moments, the number of updates and, where it keeps one, the average of the weights.
void BroadcastOptimizerState(Adam& optimizer, Communicator& comm, int root = 0);

// InternalError on every rank, naming those that differ from rank 0, where the tensors' bits are
// not the same on all ranks. Costs one pass over the tensors and one small message.
absl::Status CheckReplicas(std::span<const Tensor> tensors, std::string_view when,
                           Communicator& comm);
inline absl::Status CheckReplicas(std::initializer_list<Tensor> tensors, std::string_view when,
                                  Communicator& comm) {
  return CheckReplicas(std::span<const Tensor>(tensors.begin(), tensors.size()), when, comm);
}

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_BROADCAST_H_
