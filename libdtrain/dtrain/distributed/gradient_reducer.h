// gradient_reducer.h - sums the gradients of all ranks while the backward pass still runs.
// SPDX-License-Identifier: Apache-2.0
//
//   GradientReducer reducer(model.parameters(), comm);
//   reducer.Listen();             // to the backward pass of the last micro-batch
//   model.Backward(ctx);          // a complete bucket of gradients starts its allreduce
//   std::vector<double> sums = {12.5, 128.0};
//   reducer.ReduceScalars(sums);  // loss sums, token counts, stop flags
//   reducer.Finish();             // the gradients are sums over all ranks now
//
// Without a ParameterSet, call MarkReady() and Poll() yourself.
//
// The reducer gives sums, not averages: divide by the global number of tokens, which
// ReduceScalars() sums. A bucket is a range of the flat tensor, cut where a parameter ends. Buckets
// start in the order of the tensor, whatever the order of the marks, so the order is the same on
// all ranks. With one rank nothing travels.
//
// Wire type bfloat16 halves the bytes. Each rank's gradients are rounded once (relative error at
// most 2^-9) and added in float; the sum is rounded once more, and once further if ranks share
// several hosts. All ranks still get the same bits. Wire type float16 keeps three more bits of each
// gradient (2^-12) in a smaller range. Gradients are divided by the number of ranks before they are
// rounded and multiplied by it after the sum, so a sum overflows only if a mean exceeds 65,504.
// Below 6e-5 float16 loses precision, so use a loss scale with it.
//
// Between hosts a thread moves the bytes while backward computes: from the first MarkReady() of a
// step to ReduceScalars() or Finish() nothing else may use `comm`. Between GPUs NCCL adds in the
// wire type and in its own order: a 16-bit sum is rounded once for each rank it passes.
#ifndef DTRAIN_DISTRIBUTED_GRADIENT_REDUCER_H_
#define DTRAIN_DISTRIBUTED_GRADIENT_REDUCER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

class DeviceCommunicator;
class GradientReducer;
class Timeline;

namespace internal {
class BucketExchange;
class BucketSpans;
class CompressedExchange;
class GradientBuckets;
struct PowerSgdMemory;
PowerSgdMemory* PowerSgdMemoryOf(GradientReducer& reducer);
void PutPowerSgdMemory(GradientReducer& reducer);
}  // namespace internal

// With PowerSGD (Vogels et al. 2019) a matrix travels as two factors of `rank` columns, if these
// have at most half of its elements. Embeddings are excepted. Sums are then approximate; what they
// lack is added to the gradients of the next step. This takes twice the memory of the compressed
// gradients, and the factors, once per rank: on the GPU, where NCCL is there, else on the host. If
// the ranks of a host add first, it takes that once per host, because each rank compresses its
// share of the matrices (networks.md); GPUs do not.
struct PowerSgdOptions {
  int rank = 0;            // 0: off
  int64_t start_step = 0;  // earlier steps are not compressed
  uint64_t seed = 0;       // the same on all ranks, like the other options
};

// The gradient of one parameter: elements [begin, end) of the flat tensor.
struct GradientRange {
  std::string name;
  int64_t begin = 0;
  int64_t end = 0;
  // The size of a matrix that may travel as factors; its elements are the first ones of the range.
  // 0 for any other parameter.
  int64_t rows = 0;
  int64_t columns = 0;
};

// Sizes of buckets, and how gradients travel. The same on all ranks, except for `stream`.
struct GradientReducerOptions {
  int64_t bucket_bytes = 25 << 20;       // of float32; a larger parameter is a bucket by itself
  int64_t first_bucket_bytes = 1 << 20;  // small, so that communication starts early
  DType wire_type = DType::kFloat32;     // or kBFloat16, kFloat16
  // Not 0: a rank receives only the sums of its slice of each bucket (SliceOffsets()), half of the
  // bytes of an allreduce. Buckets and slices are cut at multiples of this many elements. On GPUs
  // all slices of a bucket have the same size, except the last one of the last bucket.
  int64_t scatter_block = 0;
  // The stream on which a GPU computes the gradients. They are then summed on the GPUs if all ranks
  // have NCCL. Without the stream, or without NCCL, they travel through the host's memory.
  std::optional<Stream> stream = {};
  PowerSgdOptions power_sgd = {};
};

// The bucket of each parameter.
std::vector<int> BucketsOf(std::span<const GradientRange> parameters,
                           const GradientReducerOptions& options);

// Sums the gradients of one model. One thread calls it, the one that runs the backward pass.
class GradientReducer {
 public:
  // Sums over all steps of this rank.
  struct Statistics {
    int64_t steps = 0;
    int64_t bytes = 0;           // in the wire type, over all steps
    double exposed_seconds = 0;  // spent waiting in Finish(), over all steps
    double launch_seconds = 0;   // spent in MarkReady() and Poll(), during the backward pass
  };

  // flat_gradients: [n] float32, in the order in which the backward pass completes them.
  // parameters: ascending, without gaps, covering all of it. The tensor and `comm` outlive the
  // reducer. All ranks call it.
  GradientReducer(const Tensor& flat_gradients, std::vector<GradientRange> parameters,
                  Communicator& comm, const GradientReducerOptions& options = {});
  // The gradients of a whole model. They must be allocated, else CheckError. MarkReady() takes
  // Parameter::index().
  GradientReducer(ParameterSet& parameters, Communicator& comm,
                  const GradientReducerOptions& options = {});
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Calls MarkReady() for every parameter that backward completes, and Poll(), until
  // StopListening() or the reducer's end. Replaces the listener of the ParameterSet. CheckError if
  // the reducer was made without one.
  void Listen();
  void StopListening();

  // The gradient of parameters[index] is complete and stays untouched until Finish() returns.
  // CheckError if it was marked before in this step.
  void MarkReady(int index);
  // Moves outstanding communication without waiting.
  void Poll();
  // Waits for all buckets. The next step may begin afterwards. Throws CheckError, which names them,
  // if gradients were not marked.
  void Finish();

  // Sums `values` over all ranks, blocking. Do not call it between the first and the last
  // MarkReady() of a step: there each rank would call it at another place among the buckets.
  void ReduceScalars(std::span<double> values);

  // Records each bucket's exchange, from its start to its landing. Outlives the reducer.
  void set_timeline(Timeline* timeline);

  int num_buckets() const;
  // The first element of a bucket. For num_buckets(): the number of elements.
  int64_t bucket_begin(int bucket) const;
  // With options.scatter_block: rank r receives the sums of elements [offsets[r], offsets[r + 1])
  // of the flat tensor. The bucket's other elements are unspecified after Finish(). [size + 1].
  std::vector<int64_t> SliceOffsets(int bucket) const;
  const Statistics& statistics() const { return statistics_; }

  // PowerSGD adds to a step's gradients what earlier steps left out. To compare the two it needs
  // the next two values; without PowerSGD neither has an effect.
  // scale: [1] float32, outlives the reducer, the factor of a step's gradients, a power of two. It
  // is read when the step's first bucket is complete. 1 if it is never set.
  void SetGradientScale(const Tensor& scale);
  // The number, above 0, by which the next steps' sums will be divided besides the scale: the
  // tokens (or rows) whose losses all ranks add up in a step. Call it before the step's first
  // MarkReady(), with the same value on all ranks. If it is never set, 1 is used, which is right if
  // all steps have the same number.
  void SetGradientTokens(double tokens);
  // The number of steps that a resumed run has made. Call it before the first MarkReady().
  void SetStep(int64_t step);

 private:
  friend class OptimizerShards;  // which exchanges by gpus_ between steps
  friend internal::PowerSgdMemory* internal::PowerSgdMemoryOf(GradientReducer& reducer);
  friend void internal::PutPowerSgdMemory(GradientReducer& reducer);

  void StartComplete();

  std::unique_ptr<internal::GradientBuckets> buckets_;
  ParameterSet* set_ = nullptr;  // the model's, or null
  bool listens_ = false;
  Communicator& comm_;
  int next_ = 0;                                        // the first bucket not started
  std::unique_ptr<internal::BucketExchange> exchange_;  // null with one rank
  // Sums the gradients from GPU to GPU; exchange_ outlives this copy. Null on CPUs, with one rank,
  // and if gradients travel through the host's memory.
  std::shared_ptr<DeviceCommunicator> gpus_;
  internal::CompressedExchange* power_sgd_ = nullptr;  // exchange_ if it is one, or null
  std::unique_ptr<internal::BucketSpans> spans_;
  Statistics statistics_;
};

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_GRADIENT_REDUCER_H_
