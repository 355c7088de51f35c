// collective_memory.h - the memory that agreed collectives need on this rank: buffers and results.
// SPDX-License-Identifier: Apache-2.0
//
// A rank without memory must say so before any data moves, or the others would wait for it in an
// exchange. So all memory of a batch is taken first.
#ifndef DTRAIN_COMM_INTERNAL_COLLECTIVE_MEMORY_H_
#define DTRAIN_COMM_INTERNAL_COLLECTIVE_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/fusion_plan.h"
#include "dtrain/comm/internal/gpu_tensors.h"
#include "dtrain/comm/internal/submitted_collective.h"
#include "dtrain/device/tensor.h"

namespace dtrain::internal {

// Makes the buffers and results on the host: NewTensor(), or a test's own. May throw
// std::bad_alloc.
using TensorMaker = std::function<Tensor(const Shape& shape, DType dtype)>;

class CollectiveMemory {
 public:
  // `comm` and `gpu` outlive this object.
  CollectiveMemory(Communicator* comm, GpuTensors* gpu, TensorMaker make_tensor)
      : comm_(comm), gpu_(gpu), make_tensor_(std::move(make_tensor)) {}

  // True if some rank may have to ask for memory. All ranks get the same answer. some_joined: some
  // rank has joined.
  bool MayNeedMore(const std::vector<CollectiveWork>& batch,
                   const std::vector<FusedReduction>& fused, bool some_joined);
  // Takes all memory that the batch needs here, and fetches inputs that pass through the host from
  // the GPU. Returns "" or the message about the collective for which no memory is left.
  std::string Take(std::vector<CollectiveWork>& batch, const std::vector<FusedReduction>& fused);
  // The buffer on the host. Its size covers the batch of the last Take().
  std::byte* buffer() const { return static_cast<std::byte*>(buffer_.raw()); }

 private:
  void FetchFromGpu(CollectiveWork& work);
  void MakeOutput(CollectiveWork& work);
  void Grow(size_t bytes);

  Communicator* comm_;
  GpuTensors* gpu_;
  TensorMaker make_tensor_;
  Tensor buffer_;  // bytes
  // Bytes of the largest exchange of several tensors for which all ranks had memory: through the
  // host, and by NCCL.
  std::array<int64_t, 2> fused_bytes_{};
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_COLLECTIVE_MEMORY_H_
