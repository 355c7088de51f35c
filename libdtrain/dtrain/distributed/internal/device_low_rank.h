// device_low_rank.h - PowerSGD's arithmetic on a GPU, in the order of a stream.
// SPDX-License-Identifier: Apache-2.0
//
// The counterpart of low_rank.h. The host waits for nothing: what it would decide after a look at
// the values (is a step's sum finite?) is decided by kernels. GPUs of one kind get the same bits
// from the same values, because additions have a fixed order. All pointers are the GPU's.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_LOW_RANK_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_LOW_RANK_H_

#include <cstdint>
#include <span>

#include "dtrain/device/stream.h"
#include "dtrain/distributed/internal/low_rank.h"

namespace dtrain::internal {

// A step's gradients are `*scale * tokens` times those of its mean loss.
struct GradientUnit {
  const float* scale = nullptr;  // null: 1
  double tokens = 1.0;
};

// gradients += errors * unit.
struct AddErrorsArgs {
  float* gradients = nullptr;
  const float* errors = nullptr;
  int64_t elements = 0;
  GradientUnit unit;
};
void AddErrorsOnDevice(const AddErrorsArgs& args, Stream& stream);

// `count` rows of `length` elements that begin at element `begin` of some memory.
struct FactorRows {
  int64_t begin = 0;
  int64_t length = 0;
};

// OrthonormaliseRows() of each of the matrices' factors in `rows`, which have `count` rows each.
void OrthonormaliseOnDevice(float* rows, std::span<const FactorRows> factors, int count,
                            Stream& stream);

// SplitOffError() with error_scale = 1 / unit.
struct SplitOffErrorArgs {
  FactorPair factors;
  MatrixSize size;
  GradientUnit unit;
  float* matrix = nullptr;
  float* error = nullptr;
};
void SplitOffErrorOnDevice(const SplitOffErrorArgs& args, Stream& stream);

// kept = next, if *broken, a step's number of NaNs and infinities, is 0.
void KeepErrorsOnDevice(const double* broken, const float* next, float* kept, int64_t elements,
                        Stream& stream);
// If *broken is 0, each row of `kept` becomes that of `sums`, scaled to length 1. A row without
// length stays what it was, so the next step looks in the same direction again.
struct KeptFactors {
  int64_t from = 0;  // of the matrix's first row, in `sums`
  int64_t to = 0;    // in `kept`
  int64_t length = 0;
};
void KeepFactorsOnDevice(const double* broken, const float* sums, float* kept,
                         std::span<const KeptFactors> factors, int count, Stream& stream);

// Only if *broken is not 0: the ranges of `values` become NaN, [begin, begin + length).
void SpoilOnDevice(const double* broken, float* values, std::span<const FactorRows> ranges,
                   Stream& stream);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_LOW_RANK_H_
