// collectives.h - collectives on named tensors, which ranks may submit in any order.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const auto environment, Environment::Create());
//   Collectives collectives(environment->World());
//   // in the backward pass, as gradients become ready, in another order on each rank if need be:
//   handles.push_back(collectives.AllReduce("layer1.weight", gradient));
//   ...
//   DT_RETURN_IF_ERROR(WaitAll(handles));
//
// For trainers that bring their own buffers. A thread of its own agrees with the other ranks on
// what all have submitted, joins small tensors of one type into one exchange, and reports what does
// not fit together (shape, type, reduction, root) on every rank, with the name and both sides. A
// tensor that is submitted again as it was costs one bit in one small reduction per cycle. An idle
// queue does nothing. Sums have the same bits in whatever order and company tensors travel, except
// where ranks share several hosts: there small exchanges add in another order than large ones.
//
// The library's own trainers use GradientReducer (distributed/gradient_reducer.h) instead: their
// order is known, so they negotiate nothing.
//
// Statuses: UsageError (exit code 2) where a call cannot work on any rank, CommunicationError (6)
// where ranks disagree, are late or gone. The length of a wait decides what late is, also where the
// rank waited for still computes, or the whole job was stopped meanwhile: give timeout_seconds for
// the longest of both. Any thread may call; the tensors are contiguous and stay untouched until the
// handle is done. Memory that is the caller's own (Tensor::View) stays there as long: WaitAll()
// waits for all handles also where one of them fails. A rank that fails by itself calls Abort()
// before it lets go of such memory, and what exceptions unwind past is declared before the
// Collectives, whose destructor is the last to use it.
//
// Tensors lie in host memory or on a GPU, one and the same name on all ranks alike. On GPUs
// all-reduces without factors and broadcasts go through NCCL where it works
// (comm/device_communicator.h); the rest, and all without NCCL, is copied through the host. What a
// collective makes lies where its input lay.
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

struct CollectivesOptions {
  // Of rank 0 for all: tensors of one type travel together up to this size.
  int64_t fusion_bytes = 64 << 20;
  double cycle_seconds = 0.001;       // pause between negotiations while nobody waits
  int64_t cache_entries = 1024;       // remembered, rank 0's too; 0 negotiates each one in full
  double stall_warning_seconds = 60;  // then a warning names the tensor and the ranks it lacks
  // Then everything pending fails; 0: never. Where heartbeats tell that every rank of the job waits
  // and nothing moves, it ends as well after CommunicatorOptions::timeout_seconds.
  double timeout_seconds = 120;
  // Where GPUs' tensors are computed: a collective reads them behind what was issued there before
  // it was submitted. Outlives the collectives, and is of the thread that submits. Null: whoever
  // submits has waited.
  Stream* gpu_stream = nullptr;
  // While it is on (base/timeline.h), every collective that is taken, from this rank's submission
  // to its result, is a span of the tensors' lane under its name, and every exchange one of the
  // communication lane; bytes are those of this rank's input. Outlives the collectives; a
  // StepTimeline's (train/step_timeline.h) becomes a trace on one clock for all ranks.
  Timeline* timeline = nullptr;
};

struct ReduceOptions {
  ReduceOp op = ReduceOp::kAverage;
  // Factors before and after the reduction. On integers they apply in double and are cut off.
  double prescale = 1;
  double postscale = 1;
};

// One submitted collective. Copies are the same collective.
class CollectiveHandle {
 public:
  CollectiveHandle() = default;
  CollectiveHandle(std::shared_ptr<internal::CollectiveResult> result, std::string name,
                   std::shared_ptr<const internal::QueueProgress> progress);
  // True when finished, well or not.
  bool Poll() const;
  // Waits; the outcome. May be called again. Meanwhile heartbeats say that this rank waits for the
  // tensor, so that a late rank is named.
  Status Wait() const;
  // After Wait() gave OK. Where the collective made it, memory that the tensor keeps alive.
  const Tensor& output() const;
  // Of an all-gather: rows of each rank. Of an all-to-all: rows received from each rank.
  const std::vector<int64_t>& rows() const;
  // Of a join: the rank that joined last.
  int last_joined() const;

 private:
  std::shared_ptr<internal::CollectiveResult> result_;
  std::string name_;
  std::shared_ptr<const internal::QueueProgress> progress_;
};

// Waits for all of them; the first error in their order, if there is one.
Status WaitAll(std::span<const CollectiveHandle> handles);
inline Status WaitAll(std::initializer_list<CollectiveHandle> handles) {
  return WaitAll(std::span<const CollectiveHandle>(handles.begin(), handles.size()));
}

// All functions return at once; names are unique among what is in flight (a second one is refused),
// the same on all ranks, and best stay the same from step to step. An empty name becomes one that
// counts this rank's nameless calls.
class Collectives {
 public:
  // Among the ranks of `comm`, with a communicator of its own split from it. All ranks call it.
  explicit Collectives(Communicator& comm, const CollectivesOptions& options = {});
  // All ranks do this together: what is pending and complete is finished, the rest fails on every
  // rank with the name of the rank that left.
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  Stream* gpu_stream() const { return gpu_stream_; }

  // In place: every rank's tensor becomes the reduction.
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
  // Rank r receives its rows of the reduction; the first ranks get one more where rows / size is
  // not whole.
  CollectiveHandle ReduceScatter(std::string_view name, const Tensor& tensor,
                                 const ReduceOptions& options = {});
  // splits[r] rows go to rank r, in order; without splits the same number to each.
  CollectiveHandle AllToAll(std::string_view name, const Tensor& tensor,
                            std::span<const int64_t> splits = {});
  // Waits until every rank has entered or joined.
  Status Barrier();
  // This rank has no more data. Until all have joined, it adds nothing to the others' all-reduces
  // (which still divide averages by the number of all ranks); other collectives fail meanwhile.
  // Waits for the others; the rank that joined last.
  StatusOr<int> Join();

  // Small objects, as the bytes the caller makes of them. Blocking.
  StatusOr<std::string> BroadcastBytes(std::string_view name, std::string_view bytes, int root = 0);
  StatusOr<std::vector<std::string>> AllGatherBytes(std::string_view name, std::string_view bytes);

  // For a rank that fails: everything pending here and elsewhere fails with the reason. Returns
  // when this rank's tensors are in use no more, so that they can be freed.
  void Abort(std::string_view reason);

  struct Statistics {
    int64_t cycles = 0;       // negotiations
    int64_t full_cycles = 0;  // of them, those with requests that were not in the cache
    int64_t tensors = 0;      // reduced
    int64_t reductions = 0;   // exchanges they took
  };
  Statistics statistics() const;

 private:
  CollectiveHandle Submit(std::unique_ptr<internal::SubmittedCollective> submitted);

  int rank_;
  int size_;
  Stream* gpu_stream_;
  std::atomic<int> gpu_ = -1;  // the number of the one that tensors lie on
  std::unique_ptr<internal::CollectiveQueue> queue_;
};

}  // namespace dtrain

#endif  // DTRAIN_COMM_COLLECTIVES_H_
