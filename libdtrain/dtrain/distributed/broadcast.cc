// broadcast.cc - whole tensors over the communicator's pipelined broadcast.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/broadcast.h"

#include "dtrain/base/check.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/tensor.h"
#include "dtrain/nn/frozen_parameters.h"

namespace dtrain {

void BroadcastTensors(std::span<const Tensor> tensors, Communicator& comm, int root) {
  for (const Tensor& tensor : tensors) {
    Stream stream(tensor.device());
    SynchronizeDevice(tensor.device());
    const Tensor host = ToHost(tensor, stream);
    DT_CHECK(host.is_contiguous());
    comm.Broadcast(host.raw(), static_cast<int64_t>(host.bytes()), root);
    if (host.raw() != tensor.raw()) {
      CopyToDevice(tensor.raw(), host.raw(), host.bytes(), stream);
      stream.Synchronize();
    }
  }
}

void BroadcastParameters(ParameterSet& parameters, Communicator& comm, int root) {
  parameters.CheckAllocated();
  BroadcastTensors({parameters.weights()}, comm, root);
  const Tensor& frozen = FrozenOf(parameters).weights();
  if (frozen) BroadcastTensors({frozen}, comm, root);
  parameters.RefreshComputeWeights();
}

void BroadcastOptimizerState(Adam& optimizer, Communicator& comm, int root) {
  DT_CHECK(!optimizer.is_sharded()) << "moments of a shard are of each rank's own weights";
  BroadcastTensors({optimizer.first_moments(), optimizer.second_moments()}, comm, root);
  if (optimizer.average()) BroadcastTensors({optimizer.average()}, comm, root);
  int64_t steps = optimizer.steps();
  comm.Broadcast(&steps, sizeof(steps), root);
  optimizer.set_steps(steps);
}

}  // namespace dtrain
