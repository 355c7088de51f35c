// gpu_tensors.h - lets named collectives reach tensors on GPUs: by NCCL or through the host.
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

// True if the request has a tensor on a GPU.
bool UsesGpu(const CollectiveRequest& request);

// Used by the queue's thread alone.
class GpuTensors {
 public:
  explicit GpuTensors(Communicator* comm) : comm_(comm) {}

  // All ranks call it before the first collective that uses GPUs, each with the GPU of its tensors.
  // A rank that joined before it had a tensor passes the CPU; then NCCL is not used. Throws
  // CommError.
  void Meet(const Device& device);
  // True if NCCL runs this collective between the GPUs; the same on all ranks. Other collectives
  // pass through the host, and all of them do without NCCL.
  bool TakesNccl(const CollectiveRequest& request) const;

  // For collectives of NCCL. The buffer has at least `bytes` bytes on its GPU and is valid until
  // the next call.
  DeviceCommunicator& nccl() { return *nccl_; }
  std::byte* BufferOf(size_t bytes);
  // A result on its GPU.
  Tensor NewForNccl(const Shape& shape, DType dtype) const;

  // Copies inputs that lie on a GPU to the host, after `ready` if it is not null. Replaces these
  // inputs, and the outputs, by the host tensors. Returns the outputs as they were.
  std::vector<Tensor> Fetch(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs,
                            const StreamMark* ready);
  // Copies host tensors to their GPU tensors.
  void Return(const std::vector<Tensor>& from, const std::vector<Tensor>& to);
  // Makes a tensor like this one on the GPU, for Return(). Call it after Fetch().
  Tensor NewOnGpu(const Tensor& host) const;

 private:
  Stream& StreamOf(const Device& device);

  Communicator* comm_;
  bool has_met_ = false;
  std::unique_ptr<DeviceCommunicator> nccl_;
  Buffer buffer_;
  std::optional<Stream> stream_;  // for copies to and from the host
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_GPU_TENSORS_H_
