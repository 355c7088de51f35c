// broadcast.h - makes tensors equal on all ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   BroadcastParameters(model.parameters(), comm);  // every rank has the weights of rank 0
//
// replica_check.h checks whether they still are.
#ifndef DTRAIN_DISTRIBUTED_BROADCAST_H_
#define DTRAIN_DISTRIBUTED_BROADCAST_H_

#include <initializer_list>
#include <span>

#include "dtrain/comm/communicator.h"
#include "dtrain/device/tensor.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"

namespace dtrain {

// Copies contiguous tensors of rank `root` into those of all ranks. Shapes and types must be the
// same on all ranks (agreement.h checks that at the start). Use BroadcastParameters() for the
// weights of a model: it also refreshes those of the compute type.
void BroadcastTensors(std::span<const Tensor> tensors, Communicator& comm, int root = 0);
inline void BroadcastTensors(std::initializer_list<Tensor> tensors, Communicator& comm,
                             int root = 0) {
  BroadcastTensors(std::span<const Tensor>(tensors.begin(), tensors.size()), comm, root);
}

// Copies the weights of a model, also in the compute type.
void BroadcastParameters(ParameterSet& parameters, Communicator& comm, int root = 0);
// Copies the moments, the number of updates and, if the optimizer has one, the average of the
// weights. Throws CheckError for an optimizer that has only a shard of them.
void BroadcastOptimizerState(Adam& optimizer, Communicator& comm, int root = 0);

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_BROADCAST_H_
