// distributed_gradients.h - averages a trainer's named gradients over ranks, ready in any order.
// SPDX-License-Identifier: Apache-2.0
//
//   Collectives collectives(environment->World());
//   DistributedGradients gradients({{"w", dw}, {"b", db}}, collectives);
//   // each step:
//   ZeroAll(dw, db);
//   Backward([&](int index) { gradients.Ready(index); });  // sums travel meanwhile
//   DT_RETURN_IF_ERROR(gradients.Synchronize());           // dw, db: the averages over all ranks
//   Clip(dw, db);
//   optimizer.Step();
//
// For models whose order of gradients is not known beforehand or differs between ranks; a model of
// this library uses GradientReducer (gradient_reducer.h), which negotiates nothing, and whose
// layers' gradients are of sums: they want kSum here, and one divisor on all ranks.
#ifndef DTRAIN_DISTRIBUTED_DISTRIBUTED_GRADIENTS_H_
#define DTRAIN_DISTRIBUTED_DISTRIBUTED_GRADIENTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/collectives.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

struct NamedGradient {
  std::string name;
  Tensor tensor;  // contiguous, in host memory or on this rank's GPU
};

struct DistributedGradientsOptions {
  ReduceOp op = ReduceOp::kAverage;
  // Backward passes whose gradients the caller adds up in the tensors before they are reduced, and
  // whether the result is divided by their number.
  int passes_per_step = 1;
  bool average_passes = false;
  // float16 or bfloat16: what float32 gradients, and on the host float64 ones, are rounded to on
  // the way, with one rank too. Other types travel as they are.
  DType wire_type = DType::kFloat32;
  // Of averages: gradients are multiplied by 1 / predivide_factor before the sum and by
  // predivide_factor / size after it.
  double predivide_factor = 1;
};

class DistributedGradients {
 public:
  // `collectives` outlives this. CheckError where names are empty or occur twice, and where a
  // GPU's gradients are to be rounded and `collectives` has no gpu_stream.
  DistributedGradients(std::vector<NamedGradient> gradients, Collectives& collectives,
                       const DistributedGradientsOptions& options = {});
  // Between Ready() and Synchronize() only where the rank fails: it aborts the collectives.
  ~DistributedGradients();
  DistributedGradients(const DistributedGradients&) = delete;
  DistributedGradients& operator=(const DistributedGradients&) = delete;

  // A backward pass has added its part of gradients[index]; after the last pass of the step it
  // starts to travel and must stay untouched. CheckError for more passes than there are in a step.
  void Ready(int index);
  // Waits for all gradients; the next step may begin. A GPU's are widened and scaled in the
  // order of gpu_stream. After an error gradients are undefined. Those that were not reported (a
  // branch of the model that this rank did not take) travel now, as they lie: zero them at the
  // start of a step.
  Status Synchronize();

 private:
  struct Entry {
    NamedGradient gradient;
    int passes = 0;
    Tensor wire;  // in the wire type; absent where the gradient travels itself
    CollectiveHandle handle;
    bool in_flight = false;
  };

  void Submit(Entry& entry);
  // Whether factors are applied here, on the GPU, so that NCCL moves the gradient.
  bool ScalesOnGpu(const Entry& entry) const;
  // What travels; times `factor` where it is rounded or ScalesOnGpu().
  Tensor OnWire(Entry& entry, double factor) const;
  void FromWire(Entry& entry) const;

  Collectives& collectives_;
  DistributedGradientsOptions options_;
  std::vector<Entry> entries_;
};

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_DISTRIBUTED_GRADIENTS_H_
