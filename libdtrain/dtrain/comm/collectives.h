// collectives.h - collectives on named tensors, which ranks may submit in any order.
// SPDX-License-Identifier: Apache-2.0
//
//   Collectives collectives(comm);
//   std::vector<float> dw(10), db(1);
//   // In the backward pass, as gradients become ready, in another order on each rank if need be:
//   std::vector<CollectiveHandle> handles;
//   handles.push_back(collectives.AllReduce("layer1.bias", Tensor::View(db.data(), {1})));
//   handles.push_back(collectives.AllReduce("layer1.weight", Tensor::View(dw.data(), {10})));
//   DT_RETURN_IF_ERROR(WaitAll(handles));  // dw, db: the averages over all ranks
//
// This is for training loops that bring their own buffers. A thread agrees with the other ranks on
// what all of them have submitted, and joins small tensors of one type into one exchange. If
// shapes, types, reductions or roots do not match, every rank gets an error with the name and both
// sides. A tensor that is submitted again unchanged costs one bit in one small reduction per cycle.
// An idle queue does nothing. Sums have the same bits in whatever order and company tensors travel,
// except if ranks share several hosts: there small exchanges add in another order than large ones.
//
// The trainers of this library use GradientReducer (distributed/gradient_reducer.h) instead: their
// order of tensors is known, so they negotiate nothing.
//
// Errors are UsageError (exit code 2) if a call cannot work on any rank, and CommunicationError (6)
// if ranks disagree, are late or gone. A rank counts as late by the length of a wait, also if it
// still computes or if the whole job was suspended. So make timeout_seconds longer than both.
//
// Any thread may call these functions. Tensors are contiguous and stay untouched until the handle
// is done. Memory that the caller owns (Tensor::View) must exist as long: WaitAll() waits for all
// handles, even if one of them fails. A rank that fails calls Abort() before it frees such memory.
// Declare that memory before the Collectives, because their destructor is the last to use it when
// an exception unwinds.
//
// Tensors are in host memory or on a GPU; a name is in the same kind of memory on all ranks. On
// GPUs collectives use NCCL if it works (comm/device_communicator.h). Reductions with factors, and
// all collectives without NCCL, are copied through the host. A result is in the same memory as its
// input.
#ifndef DTRAIN_COMM_COLLECTIVES_H_
#define DTRAIN_COMM_COLLECTIVES_H_

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

class Stream;
class Timeline;

namespace internal {
class CollectiveQueue;
struct QueueProgress;
struct SubmittedCollective;
struct CollectiveResult;
}  // namespace internal

// How tensors are joined and how long ranks wait. The same on all ranks, except for pointers.
struct CollectivesOptions {
  // Tensors of one type travel together up to this size. The value of rank 0 holds for all ranks.
  int64_t fusion_bytes = 64 << 20;
  double cycle_seconds = 0.001;  // pause between cycles while no caller waits
  // Number of tensors whose agreement is remembered; 0 negotiates each one in full. The value of
  // rank 0 holds for all ranks.
  int64_t cache_entries = 1024;
  double stall_warning_seconds = 60;  // until a warning names the tensor and the late ranks
  // Until everything pending fails; 0: never. If heartbeats show that every rank of the job waits
  // and nothing moves, the job also ends after CommunicatorOptions::timeout_seconds.
  double timeout_seconds = 120;
  // The stream that computes tensors on a GPU. A collective reads them after the work that was
  // issued there before it was submitted. The stream outlives the collectives and belongs to the
  // thread that submits. If null, the caller waits for the GPU before it submits.
  Stream* gpu_stream = nullptr;
  // If not null and on (base/timeline.h), it records spans. The tensors' lane has one per
  // collective, from this rank's submission to its result, under its name. The communication lane
  // has one per exchange. Bytes are those of this rank's input. It outlives the collectives. The
  // timeline of a StepTimeline (train/step_timeline.h) becomes a trace on one clock for all ranks.
  Timeline* timeline = nullptr;
};

// How tensors are reduced.
struct ReduceOptions {
  ReduceOp op = ReduceOp::kAverage;
  // Factors before and after the reduction. Integers are multiplied as doubles and truncated.
  double prescale = 1;
  double postscale = 1;
};

// One submitted collective. Copies of a handle refer to the same one.
class CollectiveHandle {
 public:
  CollectiveHandle() = default;
  // True when it has finished or failed.
  bool Poll() const;
  // Waits and returns the outcome. It may be called again. Meanwhile heartbeats report that this
  // rank waits for the tensor, so that messages can name late ranks.
  Status Wait() const;
  // The result, after Wait() returned OK. If the collective made it, the tensor owns its memory.
  const Tensor& output() const;
  // For an all-gather: the rows of each rank. For an all-to-all: the rows received from each rank.
  const std::vector<int64_t>& rows() const;
  // For a join: the rank that joined last.
  int last_joined() const;

 private:
  friend class Collectives;
  CollectiveHandle(std::shared_ptr<internal::CollectiveResult> result, std::string name,
                   std::shared_ptr<const internal::QueueProgress> progress);

  std::shared_ptr<internal::CollectiveResult> result_;
  std::string name_;
  std::shared_ptr<const internal::QueueProgress> progress_;
};

// Waits for all of them. Returns the first error in their order, or OK.
Status WaitAll(std::span<const CollectiveHandle> handles);
inline Status WaitAll(std::initializer_list<CollectiveHandle> handles) {
  return WaitAll(std::span<const CollectiveHandle>(handles.begin(), handles.size()));
}

// Functions that return a handle return at once. Names are the same on all ranks and unique among
// the collectives in flight; a second one is refused. Best keep the names from step to step. An
// empty name is replaced by one that counts this rank's nameless calls.
class Collectives {
 public:
  // For the ranks of `comm`. It splits its own communicator from `comm`. All ranks call it.
  explicit Collectives(Communicator& comm, const CollectivesOptions& options = {});
  // All ranks end together. Collectives that are pending and complete are finished. The others fail
  // on every rank with the name of the rank that left.
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  Stream* gpu_stream() const { return gpu_stream_; }

  // Every rank's tensor becomes the reduction.
  CollectiveHandle AllReduce(std::string_view name, const Tensor& tensor,
                             const ReduceOptions& options = {});
  // `output` has the shape and type of `input`, which stays as it is.
  CollectiveHandle AllReduce(std::string_view name, const Tensor& input, const Tensor& output,
                             const ReduceOptions& options = {});
  // Several tensors, of any types, as one unit: none is reduced before all ranks have them all.
  CollectiveHandle GroupedAllReduce(std::string_view name, std::span<const Tensor> tensors,
                                    const ReduceOptions& options = {});
  // Rows (first extents) of all ranks one after another; ranks may have different numbers of rows.
  CollectiveHandle AllGather(std::string_view name, const Tensor& tensor);
  // In place, and with the input of the root only.
  CollectiveHandle Broadcast(std::string_view name, const Tensor& tensor, int root = 0);
  CollectiveHandle Broadcast(std::string_view name, const Tensor& input, const Tensor& output,
                             int root = 0);
  // Rank r receives its rows of the reduction. The first ranks get one more row each if the rows
  // cannot be divided evenly.
  CollectiveHandle ReduceScatter(std::string_view name, const Tensor& tensor,
                                 const ReduceOptions& options = {});
  // splits[r] rows go to rank r, in order. Without splits each rank gets the same number.
  CollectiveHandle AllToAll(std::string_view name, const Tensor& tensor,
                            std::span<const int64_t> splits = {});
  // Waits until every rank has entered or joined.
  Status Barrier();
  // This rank has no more data. Until all have joined, it adds nothing to the all-reduces of the
  // others, which still divide averages by the number of all ranks. Other collectives fail
  // meanwhile. Waits for the others and returns the rank that joined last.
  StatusOr<int> Join();

  // Small objects that the caller has serialised. Blocking.
  StatusOr<std::string> BroadcastBytes(std::string_view name, std::string_view bytes, int root = 0);
  StatusOr<std::vector<std::string>> AllGatherBytes(std::string_view name, std::string_view bytes);

  // For a rank that fails: everything pending on all ranks fails with this reason. Returns when no
  // tensor of this rank is in use, so that the tensors can be freed.
  void Abort(std::string_view reason);

  // Counts since the start.
  struct Statistics {
    int64_t cycles = 0;       // number of negotiations
    int64_t full_cycles = 0;  // negotiations with requests that were not in the cache
    int64_t tensors = 0;      // tensors reduced
    int64_t reductions = 0;   // exchanges that reduced them
  };
  Statistics statistics() const;

 private:
  CollectiveHandle Submit(std::unique_ptr<internal::SubmittedCollective> submitted);

  int rank_;
  int size_;
  Stream* gpu_stream_;
  std::atomic<int> gpu_ = -1;  // the number of the GPU with this rank's tensors
  std::unique_ptr<internal::CollectiveQueue> queue_;
};

}  // namespace dtrain

#endif  // DTRAIN_COMM_COLLECTIVES_H_
