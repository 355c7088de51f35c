// gradient_reducer.h - sums the gradients of all ranks while the backward pass still runs.
// SPDX-License-Identifier: Apache-2.0
//
//   GradientReducer reducer(model.parameters(), comm);
//   reducer.Listen();              // to the backward pass of the last micro-batch: each gradient
//                                  // that is complete is marked, the last of a bucket starts its
//                                  // allreduce, and between ops bytes move
//   model.Backward(batch, ctx);
//   reducer.ReduceScalars(sums);   // loss sums, token counts, stop flags
//   reducer.Finish();              // flat_gradients holds the sums over all ranks
//
// What is no ParameterSet calls MarkReady() and Poll() itself.
//
// It gives sums, not averages: divide by the global number of tokens, which ReduceScalars sums. A
// bucket is a range of the flat tensor, cut where a parameter ends; buckets start in the order of
// the tensor, whatever the order of the marks, so the order is the same on all ranks. With one rank
// nothing is moved.
//
// Wire type bfloat16 halves the bytes: each rank's gradients are rounded once (relative error at
// most 2^-9), added in float and the sum rounded once more, once further where ranks share several
// hosts; all ranks still get the same bits. Wire type float16 keeps three more bits of each
// gradient (2^-12) in a smaller range: gradients are divided by the number of ranks before they are
// rounded and multiplied by it after the sum, so that a sum passes 65,504 only where a mean does;
// below 6e-5 it loses precision, so that it wants a loss scale.
//
// Between hosts a thread moves the bytes while backward computes: from the first MarkReady() of a
// step to ReduceScalars() or Finish(), `comm` is the reducer's alone.
//
// Between GPUs NCCL adds, in the wire type and in an order of its own: a 16-bit sum is rounded once
// for each rank it passes.
#ifndef DTRAIN_DISTRIBUTED_GRADIENT_REDUCER_H_
#define DTRAIN_DISTRIBUTED_GRADIENT_REDUCER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/timeline.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

namespace internal {
class BucketExchange;
class PowerSgdExchange;
struct PowerSgdMemory;
}  // namespace internal

// Elements [begin, end) of the flat tensor.
struct GradientRange {
  std::string name;
  int64_t begin = 0;
  int64_t end = 0;
  // Of a matrix that may travel as factors, which the first rows * columns elements hold; 0: not
  // one.
  int64_t rows = 0;
  int64_t columns = 0;
};

// Matrices but for embeddings travel as two factors of `rank` columns (Vogels et al. 2019) where
// these take half of their elements or less. Sums are then approximate; what they lack is added to
// the gradients of the next step. Takes twice as much of the host's memory as there are
// compressed gradients (what is lacking now and next) and the factors, once per rank, or per host
// where the ranks of a host add first: there each rank compresses its share of the matrices
// (networks.md).
struct PowerSgdOptions {
  int rank = 0;            // 0: off
  int64_t start_step = 0;  // steps before it go uncompressed
  uint64_t seed = 0;       // the same on all ranks, as the rest
};

struct GradientReducerOptions {
  int64_t bucket_bytes = 25 << 20;       // of float32; a larger parameter is a bucket by itself
  int64_t first_bucket_bytes = 1 << 20;  // small, so that communication starts early
  DType wire_type = DType::kFloat32;     // or kBFloat16, kFloat16
  // Not 0: a rank receives the sums of its slice of each bucket alone (SliceOffsets()), half of
  // what an allreduce moves. Buckets and slices are cut at multiples of this many elements.
  int64_t scatter_block = 0;
  // Of a GPU's gradients: the stream they are computed on. They are then summed on the GPUs where
  // all ranks have NCCL; without it, or without NCCL, they travel through the host's memory.
  std::optional<Stream> stream = {};
  PowerSgdOptions power_sgd = {};
};

// The bucket of each parameter: buckets end where a parameter ends.
std::vector<int> BucketsOf(std::span<const GradientRange> parameters,
                           const GradientReducerOptions& options);

class GradientReducer {
 public:
  struct Statistics {
    int64_t steps = 0;
    int64_t bytes = 0;           // put on the wire type, over all steps
    double exposed_seconds = 0;  // blocked in Finish(), over all steps
    double launch_seconds = 0;   // in MarkReady() and Poll(): work beside the backward pass
  };

  // flat_gradients: [n] float32, in the order in which the backward pass completes them.
  // parameters: ascending, without gaps, covering all of it. Both tensors and `comm` outlive the
  // reducer.
  GradientReducer(const Tensor& flat_gradients, std::vector<GradientRange> parameters,
                  Communicator& comm, const GradientReducerOptions& options = {});
  // The gradients of a whole model, allocated (else CheckError); MarkReady() takes
  // Parameter::index().
  GradientReducer(ParameterSet& parameters, Communicator& comm,
                  const GradientReducerOptions& options = {});
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // From now on MarkReady() of every parameter that backward completes, and Poll(), until
  // StopListening() or the reducer's end. Takes the place of the set's listener. CheckError where
  // the reducer was not made of a ParameterSet.
  void Listen();
  void StopListening();

  // The gradient of parameters[index] is complete and stays untouched until Finish() returns.
  // CheckError where it was marked before in this step.
  void MarkReady(int index);
  // Moves outstanding communication without waiting.
  void Poll();
  // Waits for all buckets; the next step may begin. CheckError, which names them, where gradients
  // were not marked.
  void Finish();

  // Sums `values` over all ranks, blocking. Not between the first and the last MarkReady() of a
  // step: there it would take its place among the buckets differently on each rank.
  void ReduceScalars(std::span<double> values);

  // Where each bucket's exchange is noted, from its start to its landing; outlives the reducer.
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }

  int num_buckets() const { return static_cast<int>(buckets_.size()); }
  // First element of a bucket; of num_buckets(): the number of elements.
  int64_t bucket_begin(int bucket) const;
  // Of options.scatter_block: rank r receives the sums of elements [offsets[r], offsets[r + 1]) of
  // the flat tensor; the others of the bucket are unspecified after Finish(). [size + 1].
  std::vector<int64_t> SliceOffsets(int bucket) const;
  const Statistics& statistics() const { return statistics_; }

  // PowerSGD adds to a step's gradients what earlier steps left out, so it must know how the two
  // compare; without PowerSGD neither of these matters.
  // [1] float32, outlives the reducer: what a step's gradients are multiplied by, a power of two.
  // Read when the step's first bucket is complete; 1 where it is not set.
  void SetGradientScale(const Tensor& scale);
  // What the next steps' sums are going to be divided by beside that: the tokens (or rows) whose
  // losses all ranks add up in a step, above 0. Before the step's first MarkReady(), the same on
  // all ranks; 1 until it is set, which will do where all steps have the same number.
  void SetGradientTokens(double tokens);
  // Of a run that goes on: steps it has made. Before the first MarkReady().
  void SetStep(int64_t step);
  // What PowerSGD carries from step to step; null with one rank and where nothing is compressed
  // yet. Between steps.
  internal::PowerSgdMemory* power_sgd_memory();

 private:
  struct Bucket {
    int64_t begin = 0;
    int64_t end = 0;
    int parameters = 0;
    int missing = 0;
    TimelineSpan span;  // of the exchange, where the timeline is on
  };

  void CutBuckets(const GradientReducerOptions& options);
  void StartComplete();
  void CheckAllMarked() const;
  bool IsTraced() const { return timeline_ != nullptr && timeline_->is_on(); }
  void NoteStart(int bucket);
  void NoteArrivals();
  void NoteLanding(int bucket);

  int64_t elements_;
  int64_t scatter_block_;
  std::vector<GradientRange> parameters_;
  ParameterSet* set_ = nullptr;  // the model's, where it is one
  bool listens_ = false;
  Communicator& comm_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;                          // by parameter
  std::vector<bool> marked_;                            // by parameter
  int next_ = 0;                                        // the first bucket not started
  std::unique_ptr<internal::BucketExchange> exchange_;  // none with one rank
  internal::PowerSgdExchange* power_sgd_ = nullptr;     // exchange_, where it is one
  Statistics statistics_;
  Timeline* timeline_ = nullptr;
};

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_GRADIENT_REDUCER_H_
