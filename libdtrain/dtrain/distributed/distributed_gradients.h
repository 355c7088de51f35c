// distributed_gradients.h - averages named gradients over ranks, in whatever order they are ready.
// SPDX-License-Identifier: Apache-2.0
//
//   Collectives collectives(comm);
//   std::vector<float> dw(10), db(1);  // zeros at the start of each step
//   DistributedGradients gradients(
//       {{"w", Tensor::View(dw.data(), {10})}, {"b", Tensor::View(db.data(), {1})}}, collectives);
//   gradients.Ready(1);                           // as the backward pass completes them, in any
//   gradients.Ready(0);                           // order; sums travel meanwhile
//   DT_RETURN_IF_ERROR(gradients.Synchronize());  // dw, db: the averages over all ranks
//
// This is for models whose order of gradients is unknown or differs between ranks. Models of this
// library use GradientReducer (gradient_reducer.h), which negotiates nothing. Their layers compute
// gradients of sums, so here they need kSum, and the same divisor on all ranks.
#ifndef DTRAIN_DISTRIBUTED_DISTRIBUTED_GRADIENTS_H_
#define DTRAIN_DISTRIBUTED_DISTRIBUTED_GRADIENTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/collectives.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// A gradient, which has the same name on all ranks.
struct NamedGradient {
  std::string name;
  Tensor tensor;  // contiguous, in host memory or on this rank's GPU
};

// How gradients are reduced. The same on all ranks.
struct DistributedGradientsOptions {
  ReduceOp op = ReduceOp::kAverage;
  // The caller adds up the gradients of this many backward passes in the tensors before they are
  // reduced. average_passes: divide the result by that number.
  int passes_per_step = 1;
  bool average_passes = false;
  // With float16 or bfloat16, float32 gradients are rounded to it on the way, also with one rank.
  // So are float64 gradients on the host. Other types travel as they are.
  DType wire_type = DType::kFloat32;
  // For averages: gradients are multiplied by 1 / predivide_factor before the sum and by
  // predivide_factor / size after it.
  double predivide_factor = 1;
};

// Averages a fixed list of gradients in each step. One thread calls it.
class DistributedGradients {
 public:
  // `collectives` outlives this. Throws CheckError if names are empty or occur twice, and if a
  // GPU's gradients must be rounded but `collectives` has no gpu_stream.
  DistributedGradients(std::vector<NamedGradient> gradients, Collectives& collectives,
                       const DistributedGradientsOptions& options = {});
  // Between Ready() and Synchronize() it aborts the collectives, because the rank has failed.
  ~DistributedGradients();
  DistributedGradients(const DistributedGradients&) = delete;
  DistributedGradients& operator=(const DistributedGradients&) = delete;

  // A backward pass has added its part of gradients[index]. After the last pass of the step the
  // gradient starts to travel and must stay untouched. Throws CheckError for more passes than a
  // step has.
  void Ready(int index);
  // Waits for all gradients; then the next step may begin. Gradients on a GPU are widened and
  // scaled in the order of gpu_stream. After an error gradients are undefined. Gradients that were
  // not reported (of a branch of the model that this rank did not take) travel now, with their
  // present values: zero them at the start of a step.
  Status Synchronize();

 private:
  struct Entry {
    NamedGradient gradient;
    int passes = 0;
    Tensor wire;  // in the wire type; absent if the gradient itself travels
    CollectiveHandle handle;
    bool in_flight = false;
  };

  void Submit(Entry& entry);
  // True if factors are applied here, on the GPU, so that NCCL can move the gradient.
  bool ScalesOnGpu(const Entry& entry) const;
  // The tensor that travels. It is multiplied by `factor` if it is rounded or if ScalesOnGpu().
  Tensor OnWire(Entry& entry, double factor) const;
  void FromWire(Entry& entry) const;

  Collectives& collectives_;
  DistributedGradientsOptions options_;
  std::vector<Entry> entries_;
};

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_DISTRIBUTED_GRADIENTS_H_
