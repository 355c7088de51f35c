// collective_executor.h - runs the collectives that all ranks agreed on, and hands out results.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_COLLECTIVE_EXECUTOR_H_
#define DTRAIN_COMM_INTERNAL_COLLECTIVE_EXECUTOR_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "dtrain/base/timeline.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/collective_memory.h"
#include "dtrain/comm/internal/fused_reducer.h"
#include "dtrain/comm/internal/fusion_plan.h"
#include "dtrain/comm/internal/gpu_tensors.h"
#include "dtrain/comm/internal/submitted_collective.h"

namespace dtrain::internal {

class CollectiveExecutor {
 public:
  // `comm` and `timeline`, which records the exchanges, outlive the executor.
  CollectiveExecutor(Communicator* comm, int64_t fusion_bytes, TensorMaker make_tensor,
                     Timeline* timeline)
      : comm_(comm),
        fusion_bytes_(fusion_bytes),
        timeline_(timeline),
        gpu_(comm),
        memory_(comm, &gpu_, std::move(make_tensor)),
        reducer_(comm, &gpu_, timeline) {}

  // All ranks pass the same collectives in the same order; some_joined: some rank has joined. The
  // caller finishes the results. Throws CollectiveError before any data moves if a rank lacks
  // memory.
  void Run(std::vector<CollectiveWork>& batch, bool some_joined);

  // Any thread may call these: the number of tensors reduced, and of the exchanges they took.
  int64_t tensors() const { return reducer_.tensors(); }
  int64_t reductions() const { return reducer_.reductions(); }

 private:
  // Connects the GPUs before the first collective that has a tensor on one.
  void MeetOnGpus(const std::vector<CollectiveWork>& batch);
  void ReturnToGpus(const std::vector<CollectiveWork>& batch);
  std::vector<FusedReduction> PlanReductions(const std::vector<CollectiveWork>& batch) const;
  // Runs any collective except all-reduces and barriers.
  void Move(const CollectiveWork& work);
  // The result of a collective that makes one.
  static void HandOver(const CollectiveWork& work, std::vector<int64_t> rows);
  // The stream of NCCL's collectives, after the computation of this one's input.
  Stream& NcclStreamOf(const CollectiveWork& work);
  bool TakesNccl(const CollectiveWork& work) const {
    return UsesGpu(work.agreed.request) && gpu_.TakesNccl(work.agreed.request);
  }
  void AllGather(const CollectiveWork& work);
  void GatherByNccl(const CollectiveWork& work, const std::vector<int64_t>& offsets);
  void ScatterByNccl(const CollectiveWork& work, const std::vector<int64_t>& offsets);
  void Broadcast(const CollectiveWork& work);
  void ReduceScatter(const CollectiveWork& work);
  void AllToAll(const CollectiveWork& work);

  Communicator* comm_;
  int64_t fusion_bytes_;
  Timeline* timeline_;
  GpuTensors gpu_;
  Device gpu_device_;  // holds this rank's tensors; the CPU until the first one on a GPU
  CollectiveMemory memory_;
  FusedReducer reducer_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_COLLECTIVE_EXECUTOR_H_
