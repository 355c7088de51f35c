// fused_reducer.h - reduces several tensors in one exchange, through the host's memory or by NCCL.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_FUSED_REDUCER_H_
#define DTRAIN_COMM_INTERNAL_FUSED_REDUCER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "dtrain/base/timeline.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/fusion_plan.h"
#include "dtrain/comm/internal/gpu_tensors.h"

namespace dtrain::internal {

class FusedReducer {
 public:
  // All of them outlive the reducer. `timeline` records the exchanges.
  FusedReducer(Communicator* comm, GpuTensors* gpu, Timeline* timeline)
      : comm_(comm), gpu_(gpu), timeline_(timeline) {}

  // Packs the tensors, reduces them and writes the sums. `buffer` is host memory as
  // CollectiveMemory provides it.
  void Run(const FusedReduction& fused, std::byte* buffer);

  // Any thread may call these.
  int64_t tensors() const { return tensors_; }
  int64_t reductions() const { return reductions_; }

 private:
  void ReduceOnHost(const FusedReduction& fused, std::byte* buffer);
  void ReduceByNccl(const FusedReduction& fused, std::byte* buffer);

  Communicator* comm_;
  GpuTensors* gpu_;
  Timeline* timeline_;
  std::atomic<int64_t> tensors_ = 0;
  std::atomic<int64_t> reductions_ = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_FUSED_REDUCER_H_
