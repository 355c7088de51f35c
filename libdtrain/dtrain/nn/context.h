// context.h - what a forward or backward pass needs beside its tensors: device, memory, randomness.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_NN_CONTEXT_H_
#define DTRAIN_NN_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dtrain/device/arena.h"
#include "dtrain/device/buffer.h"
#include "dtrain/device/sequences.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/device/tensor_copy.h"
#include "dtrain/ops/dropout.h"

namespace dtrain {

// What backward computes again instead of forward keeping it.
enum class Recompute {
  kNone,   // keep everything
  kCheap,  // layer norm outputs and activations come back from their inputs: no product is repeated
  kEveryK,  // keep each k-th layer's input only and run those k layers' forward again
            // (nn/transformer_stack.h)
  kFull     // keep each layer's input only and run the layer's forward again
};

struct ContextOptions {
  // Of activations and products: float32 or bfloat16; on a GPU float16, too.
  DType compute_type = DType::kFloat32;
  Recompute recompute = Recompute::kNone;
  int recompute_every = 2;  // k of Recompute::kEveryK
  uint64_t seed = 1;        // of dropout
  // Among those that train together: a Trainer wants its communicator's. Dropout of rows without
  // numbers draws by it.
  int rank = 0;
};

// Numbers in the host's memory, on their way to the device: a vector or span of int32_t or float.
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

// Where a trainer wants the loss of a training pass, all in the device's memory and [1]: the host
// reads the sums when the device has long gone on.
struct LossTensors {
  Tensor scale;              // float32: multiplies the sum of losses before backward
  Tensor loss_sum, nll_sum;  // float64: forward adds the pass' sums to them
};

// One per rank, used by one thread. Layers draw activations from it; after a step all are free
// again.
class Context {
 public:
  explicit Context(const Device& device = {}, const ContextOptions& options = {});

  const Device& device() const { return stream_.device(); }
  Stream& stream() { return stream_; }
  Arena& activations() { return *activations_; }
  DType compute_type() const { return options_.compute_type; }
  Recompute recompute() const { return options_.recompute; }
  int recompute_every() const { return options_.recompute_every; }
  int rank() const { return options_.rank; }

  // While training, dropout is on and layers keep what backward needs.
  bool training() const { return training_; }
  void set_training(bool training) { training_ = training; }
  // The next training pass is micro-batch `part` of this update since the start of the run, of at
  // most kMostParts: dropout draws by them, so that a run that goes on draws what one that never
  // stopped does.
  static constexpr int64_t kMostParts = 1024;
  void set_step(int64_t update, int64_t part = 0);

  // Of the following training passes; without scale (the default) that is 1, and the sums are what
  // Forward returns.
  void set_loss(const LossTensors& loss) { loss_ = loss; }
  const LossTensors& loss() const { return loss_; }

  Tensor Empty(const Shape& shape) { return dtrain::Empty(*activations_, shape, compute_type()); }
  Tensor Empty(const Shape& shape, DType dtype) {
    return dtrain::Empty(*activations_, shape, dtype);
  }
  // ids on the device, [count].
  Tensor Upload(std::span<const int32_t> ids) {
    const HostList list = ids;
    return Upload(std::span(&list, 1)).front();
  }
  // Several at once, which is one copy; each begins at a multiple of kListAlignment elements.
  static constexpr int64_t kListAlignment = Arena::kAlignment / HostList::kElementBytes;
  std::vector<Tensor> Upload(std::span<const HostList> lists);
  // Elements of the block that holds lists of so many.
  static int64_t UploadedElements(std::span<const int64_t> counts);

  // The dropout of this step at `site`; off while not training. With numbers of the rows
  // (Sequences::row_numbers()) it follows from the seed, the update and them: it is the same
  // however many ranks and micro-batches share an update. Without, each of these draws other
  // numbers.
  Dropout MakeDropout(float probability, uint32_t site, const Tensor& row_numbers = {}) const;

 private:
  ContextOptions options_;
  Stream stream_;
  std::shared_ptr<Arena> activations_;
  bool training_ = false;
  // What stands for the step in dropout's key, where rows have numbers and where they have none.
  struct Steps {
    uint32_t update = 0;
    uint32_t pass = 0;
  };
  Steps steps_;
  Buffer device_steps_;  // on a GPU: the same for kernels that were recorded in another step
  LossTensors loss_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_CONTEXT_H_
