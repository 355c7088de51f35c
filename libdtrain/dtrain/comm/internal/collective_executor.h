// collective_executor.h - does what the ranks agreed on: joins, scales, moves, hands out results.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_COLLECTIVE_EXECUTOR_H_
#define DTRAIN_COMM_INTERNAL_COLLECTIVE_EXECUTOR_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/timeline.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/collective_request.h"
#include "dtrain/comm/internal/gpu_tensors.h"
#include "dtrain/device/stream_order.h"
#include "dtrain/device/tensor.h"

namespace dtrain::internal {

// How a collective ended. Statuses are made of it where they are used, because copies of one status
// share memory, and queue and callers are different threads.
struct CollectiveOutcome {
  ExitCode code = ExitCode::kDone;
  std::string message{};

  bool ok() const { return code == ExitCode::kDone; }
  Status status() const;
};

// What a handle waits for.
struct CollectiveResult {
  std::mutex mutex;
  std::condition_variable finished;
  std::atomic<bool> done = false;
  CollectiveOutcome outcome;
  Tensor output;
  std::vector<int64_t> rows;
  int last_joined = -1;
  // Of the waiting thread: lets the queue's next cycle begin without a pause.
  std::function<void()> hurry;

  void Finish(CollectiveOutcome how);
};

// A collective as this rank submitted it.
struct SubmittedCollective {
  CollectiveRequest request;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;  // of a reduction or broadcast: may be the inputs
  // Where the inputs lie on a GPU and are still being computed: when they will be there.
  std::unique_ptr<StreamMark> ready;
  std::shared_ptr<CollectiveResult> result;
  int64_t since = 0;  // Timeline::Now(); 0: the timeline was off
};

// Thrown on every rank at the same place: some rank cannot do what all had agreed on.
class CollectiveError : public std::runtime_error {
 public:
  CollectiveError(ExitCode code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Makes what collectives need on the host, buffers and results: NewTensor(). May throw.
using TensorMaker = std::function<Tensor(const Shape& shape, DType dtype)>;

class CollectiveExecutor {
 public:
  CollectiveExecutor(Communicator* comm, int64_t fusion_bytes, TensorMaker make_tensor,
                     Timeline* timeline)
      : comm_(comm),
        fusion_bytes_(fusion_bytes),
        make_tensor_(std::move(make_tensor)),
        timeline_(timeline),
        gpu_(comm) {}

  struct Work {
    AgreedCollective agreed;
    // Absent on a rank that has joined.
    std::unique_ptr<SubmittedCollective> submitted;
    // Of one that goes through the host: the outputs on the GPU.
    std::vector<Tensor> gpu_outputs{};
    // What the collective makes, on the host, and where it goes on the GPU.
    Tensor made{}, gpu_made{};
  };
  // All ranks pass the same collectives in the same order; some_joined: some rank has joined. Does
  // not finish the results. CollectiveError, before any data moves: a rank lacks the memory.
  void Run(std::vector<Work>& batch, bool some_joined);
  // Copies of a submission's tensors, and a result that nobody waits for.
  static std::unique_ptr<SubmittedCollective> CopyOf(const SubmittedCollective& submitted);

  int64_t tensors() const { return tensors_; }
  int64_t reductions() const { return reductions_; }

 private:
  // One tensor of an all-reduce.
  struct Part {
    const CollectiveRequest* request = nullptr;
    DType dtype = DType::kFloat32;
    int64_t count = 0;
    const void* from = nullptr;  // absent on a rank that has joined
    void* to = nullptr;
    bool by_nccl = false;
    const StreamMark* ready = nullptr;
  };
  struct Fused {
    std::vector<Part> parts;
    int64_t bytes = 0;
  };

  void MeetOnGpus(const std::vector<Work>& batch);
  void FetchFromGpu(Work& work);
  void ReturnToGpus(const std::vector<Work>& batch);
  // Whether some rank may have to ask for memory: the same answer on all.
  bool NeedsMemory(const std::vector<Work>& batch, const std::vector<Fused>& fused,
                   bool some_joined);
  // Takes all the memory that the batch needs here; "" or what there is none for.
  std::string TakeMemory(std::vector<Work>& batch, const std::vector<Fused>& fused);
  void MakeOutput(Work& work);
  void Grow(size_t bytes);
  void AllReduce(const std::vector<Fused>& fused);
  std::vector<Fused> Fuse(const std::vector<Work>& batch) const;
  void AddPart(const Part& part, std::vector<Fused>* fused) const;
  void Reduce(const Fused& fused);
  void ReduceByNccl(const Fused& fused);
  void Move(const Work& work);
  void AllGather(const Work& work);
  void Broadcast(const Work& work);
  void ReduceScatter(const Work& work);
  void AllToAll(const Work& work);

  Communicator* comm_;
  int64_t fusion_bytes_;
  TensorMaker make_tensor_;
  Timeline* timeline_;  // of the exchanges
  Tensor buffer_;       // bytes
  // The largest exchange of several tensors that all had memory for: by host, by NCCL.
  std::array<int64_t, 2> fused_bytes_{};
  GpuTensors gpu_;
  Device gpu_device_;  // of this rank's tensors; the CPU until there is one
  std::atomic<int64_t> tensors_ = 0;
  std::atomic<int64_t> reductions_ = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_COLLECTIVE_EXECUTOR_H_
