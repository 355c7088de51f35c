// factor_layout.h - which parts of a bucket travel as factors, which unchanged, and on which rank.
// SPDX-License-Identifier: Apache-2.0
//
// If a worker is a host of several ranks (worker_grid.h), the layout describes this rank's share of
// each bucket.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_FACTOR_LAYOUT_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_FACTOR_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/internal/bucket_exchange.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"
#include "dtrain/distributed/internal/worker_grid.h"

namespace dtrain::internal {

// A bucket of the reducer, or a piece of one.
struct FactorPiece {
  BucketRange range;
  // The shares of the worker's ranks, in elements from the beginning of the range: [places + 1].
  std::vector<int64_t> share_offsets;
  // This rank's matrices are [first_matrix, last_matrix) of PowerSgdMemory::matrices.
  size_t first_matrix = 0, last_matrix = 0;
  // The parts of this rank's share that are no matrices. They travel as they are.
  std::vector<BucketRange> rest;
  // Elements that travel: P^T of the matrices, Q^T of the matrices, and the rest.
  int64_t left_elements = 0, right_elements = 0, rest_elements = 0;

  int64_t first_elements() const { return left_elements + rest_elements; }
};

class FactorLayout {
 public:
  // `parameters` of `buckets`. Adds the compressed ones to memory->matrices; reads its rank and
  // grid. This rank has place `place` in its worker.
  FactorLayout(const std::vector<BucketRange>& buckets,
               const std::vector<GradientRange>& parameters, int place, PowerSgdMemory* memory);

  const std::vector<FactorPiece>& pieces() const { return pieces_; }
  // The pieces of a bucket of the reducer are [begin_of, end_of).
  size_t begin_of(int bucket) const {
    return bucket > 0 ? ends_[static_cast<size_t>(bucket) - 1] : 0;
  }
  size_t end_of(int bucket) const { return ends_[static_cast<size_t>(bucket)]; }
  // The elements of a bucket that travel.
  int64_t TravellingElements(int bucket) const;

 private:
  void AddPiece(const BucketRange& range, const std::vector<GradientRange>& parameters, int place,
                ShareCutter& cutter, PowerSgdMemory* memory);

  std::vector<FactorPiece> pieces_;
  std::vector<size_t> ends_;  // by bucket
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_FACTOR_LAYOUT_H_
