// broadcast.cc - whole tensors over the communicator's pipelined broadcast; hashes to compare.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/broadcast.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"
#include "dtrain/tensor/copy.h"
#include "dtrain/train/internal/fingerprint.h"

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
  BroadcastTensors({parameters.weights()}, comm, root);
  parameters.RefreshComputeWeights();
}

void BroadcastOptimizerState(Adam& optimizer, Communicator& comm, int root) {
  BroadcastTensors({optimizer.first_moments(), optimizer.second_moments()}, comm, root);
  if (optimizer.average()) BroadcastTensors({optimizer.average()}, comm, root);
  int64_t steps = optimizer.steps();
  comm.Broadcast(&steps, sizeof(steps), root);
  optimizer.set_steps(steps);
}

absl::Status CheckReplicas(std::span<const Tensor> tensors, std::string_view when,
                           Communicator& comm) {
  internal::Fingerprint mine;
  for (const Tensor& tensor : tensors) {
    Stream stream(tensor.device());
    SynchronizeDevice(tensor.device());
    const Tensor host = ToHost(tensor, stream);
    DT_CHECK(host.is_contiguous());
    mine.Add(host.raw(), host.bytes());
  }
  const std::vector<internal::Fingerprint> all = comm.AllGather(mine);
  std::string different;
  for (int r = 1; r < comm.size(); ++r) {
    if (all[static_cast<size_t>(r)] == all[0]) continue;
    absl::StrAppend(&different, different.empty() ? "" : ", ", r, " (host ", comm.host(r), ")");
  }
  if (different.empty()) return absl::OkStatus();
  return InternalError(absl::StrCat(
      "the replicas differ ", ToAbsl(when), ": rank ", different,
      " no longer holds the values of rank 0; the steps since the last checkpoint are lost. A host "
      "with faulty memory or other software is the likely cause"));
}

}  // namespace dtrain
