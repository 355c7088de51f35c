// broadcast.h - makes tensors equal on all ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   BroadcastTensors({flat_parameters, adam_m, adam_v}, comm);
//
// replica_check.h tells whether they still are.
#ifndef DTRAIN_DISTRIBUTED_BROADCAST_H_
#define DTRAIN_DISTRIBUTED_BROADCAST_H_

#include <initializer_list>
#include <span>

#include "dtrain/comm/communicator.h"
#include "dtrain/device/tensor.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"

namespace dtrain {

// Copies contiguous tensors of rank `root` into those of all ranks. Shapes and types are the
// same on all ranks (the start-up contract sees to that). Weights of a model go by
// BroadcastParameters(), which refreshes those of the compute type too.
void BroadcastTensors(std::span<const Tensor> tensors, Communicator& comm, int root = 0);
inline void BroadcastTensors(std::initializer_list<Tensor> tensors, Communicator& comm,
                             int root = 0) {
  BroadcastTensors(std::span<const Tensor>(tensors.begin(), tensors.size()), comm, root);
}

// The weights of a model, also in the compute type.
void BroadcastParameters(ParameterSet& parameters, Communicator& comm, int root = 0);
// The moments, the number of updates and, where it keeps one, the average of the weights.
// CheckError of an optimizer that has those of a shard alone: each rank's are of other weights.
void BroadcastOptimizerState(Adam& optimizer, Communicator& comm, int root = 0);

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_BROADCAST_H_
