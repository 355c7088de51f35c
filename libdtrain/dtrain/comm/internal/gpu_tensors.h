// gpu_tensors.h - how named collectives reach GPUs' tensors: NCCL, or a copy in the host's memory.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_GPU_TENSORS_H_
#define DTRAIN_COMM_INTERNAL_GPU_TENSORS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/device_communicator.h"
#include "dtrain/comm/internal/collective_request.h"
#include "dtrain/device/buffer.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/stream_order.h"
#include "dtrain/device/tensor.h"

namespace dtrain::internal {

// Whether it has a tensor on a GPU.
bool UsesGpu(const CollectiveRequest& request);

// Of the queue's thread.
class GpuTensors {
 public:
  explicit GpuTensors(Communicator* comm) : comm_(comm) {}

  // All ranks call it before the first collective that uses GPUs, each with the GPU its tensors lie
  // on, or with the CPU where it has joined before it had any; then NCCL is not used. CommError.
  void Meet(const Device& device);
  // Whether NCCL does this one, GPU to GPU: the same on all ranks. What it does not do, and all
  // where it is missing, goes through the host.
  bool TakesNccl(const CollectiveRequest& request) const;

  // Of NCCL. A buffer of at least so many bytes on its GPU is valid until the next one.
  DeviceCommunicator& nccl() { return *nccl_; }
  std::byte* BufferOf(size_t bytes);

  // Copies inputs that lie on a GPU, behind `ready` (none: at once), and puts host tensors in their
  // place and in that of outputs; gives the outputs as they were.
  std::vector<Tensor> Fetch(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs,
                            const StreamMark* ready);
  // Copies host tensors to where they belong.
  void Return(const std::vector<Tensor>& from, const std::vector<Tensor>& to);
  // A tensor like this on the GPU, for Return(). Behind a Fetch().
  Tensor NewOnGpu(const Tensor& host) const;

 private:
  Stream& StreamOf(const Device& device);

  Communicator* comm_;
  bool has_met_ = false;
  std::unique_ptr<DeviceCommunicator> nccl_;
  Buffer buffer_;
  std::optional<Stream> stream_;  // of copies to and from the host
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_GPU_TENSORS_H_
