// device_factors.h - a GPU's part of PowerSGD: its factors, its errors, and the arithmetic on them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_FACTORS_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_FACTORS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dtrain/device/buffer.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/internal/device_low_rank.h"
#include "dtrain/distributed/internal/factor_layout.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"

namespace dtrain::internal {

// Between Begin() and End() of a step each piece of the layout goes through Project(), a sum of
// First(), ProjectBack(), KeepOwn(), a sum of Second() and Restore(). All of it is work in the
// order of the stream.
class DeviceFactors {
 public:
  // flat: [n] float32 on a GPU; `parameters` of its buckets. Every rank is a worker.
  DeviceFactors(const Tensor& flat, const std::vector<BucketRange>& buckets,
                const std::vector<GradientRange>& parameters, const PowerSgdOptions& options,
                int ranks, Stream stream);

  const FactorLayout& layout() const { return layout_; }
  const PowerSgdMemory& matrices() const { return memory_; }
  // The most elements of First() and Second().
  int64_t widest() const { return widest_; }
  GradientUnit& unit() { return unit_; }

  // Takes the memory. `step` draws the factors with which the first step begins.
  void Allocate(int64_t step);

  // The errors and factors, copied to the host.
  PowerSgdMemory* Fetch();
  // The copy on the host was changed.
  void Put(int64_t step);

  void Begin();
  // Adds the errors to the gradients; then First() is P^T of the piece's matrices and the rest.
  void Project(size_t piece);
  Tensor First(size_t piece) const;
  // First() holds the sums over all ranks. Makes P orthonormal; then Second() is Q^T.
  void ProjectBack(size_t piece);
  Tensor Second(size_t piece) const;
  // Second() is what this rank gives to the sum.
  void KeepOwn(size_t piece);
  // Second() holds the sums over all ranks. The gradients become P Q^T and the sums of the rest.
  void Restore(size_t piece);
  // If all sums of the step were finite, its errors and factors are those of the next step. Else
  // the gradients become NaN: the step is going to be skipped.
  void End();

 private:
  // A piece, in elements from the beginning of first_ and second_.
  struct Place {
    int64_t first = 0, second = 0;
  };

  // Calls body(matrix, its P^T in first_, its Q^T in second_ and own_), the last two as offsets.
  template <typename Body>
  void ForEachMatrix(size_t piece, const Body& body) const;
  Tensor At(const Buffer& buffer, int64_t element, const Shape& shape) const;
  Tensor Counts() const;

  Tensor flat_;
  Stream stream_;
  PowerSgdOptions options_;
  GradientUnit unit_;
  PowerSgdMemory memory_;  // its errors and factors are copies, made for a checkpoint
  FactorLayout layout_;
  std::vector<Place> places_;  // of the layout's pieces
  int64_t widest_ = 0;
  Buffer errors_, next_errors_;  // of the step before, and of this one
  Buffer factors_;               // Q^T of each matrix, of rows of length 1
  Buffer first_, second_;        // P^T and the rest, Q^T: float32
  Buffer own_;                   // Q^T of this rank
  Buffer broken_;                // {sum of squares, NaNs and infinities} of a step's sums
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_FACTORS_H_
