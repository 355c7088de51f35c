// context.h - the environment of a forward or backward pass: device, memory, randomness.
// SPDX-License-Identifier: Apache-2.0
//
//   Context ctx(runtime.device, {.compute_type = DType::kFloat32, .rank = comm.rank()});
//   ctx.set_training(true);
//   ctx.set_step(/*update=*/0);  // dropout draws by the number of the update
//   const std::vector<int32_t> ids = {5, 3, 2};
//   const Tensor on_device = ctx.Upload(ids);  // [3], int32
#ifndef DTRAIN_NN_CONTEXT_H_
#define DTRAIN_NN_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dtrain/device/sequences.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

class Arena;
struct Dropout;

// Which activations backward computes again, instead of forward keeping them.
enum class Recompute {
  kNone,   // keep everything
  kCheap,  // recompute layer norm outputs and activations from their inputs; no product is repeated
  kEveryK,  // keep the input of every k-th layer only, and run those k layers' forward again
            // (nn/transformer_stack.h)
  kFull     // keep each layer's input only, and run the layer's forward again
};

// Precision, recomputation and random numbers of a context.
struct ContextOptions {
  // Type of activations and products: float32, bfloat16 or, on a GPU, float16.
  DType compute_type = DType::kFloat32;
  Recompute recompute = Recompute::kNone;
  int recompute_every = 2;  // k of Recompute::kEveryK
  uint64_t seed = 1;        // seed of dropout
  // This process' rank among those that train together; a Trainer expects its communicator's rank.
  // It changes the dropout of rows without numbers.
  int rank = 0;
};

// A vector or span of int32_t or float in host memory that is to be uploaded.
struct HostList {
  template <typename Values>
  HostList(const Values& values)
      : data(values.data()),
        elements(static_cast<int64_t>(values.size())),
        dtype(kDTypeOf<typename Values::value_type>) {
    static_assert(sizeof(typename Values::value_type) == kElementBytes);
  }

  static constexpr size_t kElementBytes = 4;
  const void* data;
  int64_t elements;
  DType dtype;
};

// Tensors for the loss of a training pass, all [1] and in device memory. The host reads the sums
// later, without waiting for the device.
struct LossTensors {
  Tensor scale;     // float32: multiplies the sum of losses before backward
  Tensor loss_sum;  // float64: forward adds the sum of the pass
  Tensor nll_sum;   // float64: the same
};

// Sums over target tokens, or over texts. Ranks and micro-batches add their sums, and the total is
// divided once.
struct LossSums {
  double loss = 0.0;  // the trained loss, in nats: label-smoothed or weighted
  double nll = 0.0;   // -log p(target), in nats
  int64_t tokens = 0;

  LossSums& operator+=(const LossSums& other) {
    loss += other.loss;
    nll += other.nll;
    tokens += other.tokens;
    return *this;
  }
};

// One per rank, used by one thread. Layers allocate activations from it, and all are free again
// after a step.
class Context {
 public:
  explicit Context(const Device& device = {}, const ContextOptions& options = {});
  Context(Context&&) = default;
  Context& operator=(Context&&) = default;

  const Device& device() const { return stream_.device(); }
  Stream& stream() { return stream_; }
  Arena& activations() { return *activations_; }
  DType compute_type() const { return options_.compute_type; }
  Recompute recompute() const { return options_.recompute; }
  int recompute_every() const { return options_.recompute_every; }
  int rank() const { return options_.rank; }

  // While training is on, dropout is on and layers keep the tensors that backward needs.
  bool training() const { return training_; }
  void set_training(bool training) { training_ = training; }
  // Says that the next training pass is micro-batch `part` (below kMostParts) of update `update`,
  // counted since the start of the run. Dropout depends on both, so a resumed run draws the same as
  // one that never stopped.
  static constexpr int64_t kMostParts = 1024;
  void set_step(int64_t update, int64_t part = 0);

  // The loss tensors of the following training passes. By default scale is absent: it counts as 1,
  // and Forward returns the sums.
  void set_loss(const LossTensors& loss) { loss_ = loss; }
  const LossTensors& loss() const { return loss_; }

  // An activation with undefined contents, in the compute type or in `dtype`.
  Tensor Empty(const Shape& shape) { return dtrain::Empty(*activations_, shape, compute_type()); }
  Tensor Empty(const Shape& shape, DType dtype) {
    return dtrain::Empty(*activations_, shape, dtype);
  }
  // Copies ids to the device: [count].
  Tensor Upload(std::span<const int32_t> ids) {
    const HostList list = ids;
    return Upload(std::span(&list, 1)).front();
  }
  // Copies several lists at once with a single copy. Each result begins at a multiple of
  // kListAlignment elements.
  static constexpr int64_t kListAlignment = 32;
  std::vector<Tensor> Upload(std::span<const HostList> lists);
  // Number of elements in a block that holds lists of the given lengths.
  static int64_t UploadedElements(std::span<const int64_t> counts);

  // The dropout of this step at `site`; off while not training. With row numbers
  // (Sequences::row_numbers()) it depends only on the seed, the update and these numbers, however
  // many ranks and micro-batches share an update. Without them, each rank and micro-batch draws
  // different numbers.
  Dropout MakeDropout(float probability, uint32_t site, const Tensor& row_numbers = {}) const;

 private:
  ContextOptions options_;
  Stream stream_;
  std::shared_ptr<Arena> activations_;
  bool training_ = false;
  // The step in dropout's key: `update` for rows with numbers, `pass` for rows without.
  struct Steps {
    uint32_t update = 0;
    uint32_t pass = 0;
  };
  Steps steps_;
  Tensor device_steps_;  // GPU only: a device copy, for kernels that were recorded in another step
  LossTensors loss_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_CONTEXT_H_
