// device_low_rank_kernel.h - arguments of the kernels that implement device_low_rank.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_LOW_RANK_KERNEL_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_LOW_RANK_KERNEL_H_

#include <cstdint>

#include "dtrain/distributed/internal/device_low_rank.h"

namespace dtrain::internal {

// Matrices of one launch: their list travels with the kernel's other arguments (4 KiB in all).
inline constexpr int kMatricesOfLaunch = 64;

// The most factors of a matrix: trainer.power_sgd_rank's bound.
inline constexpr int kMostFactors = 1024;

struct OrthonormaliseArgs {
  float* rows = nullptr;
  int count = 0;
  int matrices = 0;
  FactorRows factors[kMatricesOfLaunch] = {};
};
struct KeepErrorsArgs {
  const double* broken = nullptr;
  const float* next = nullptr;
  float* kept = nullptr;
  int64_t elements = 0;
};
struct KeepFactorsArgs {
  const double* broken = nullptr;
  const float* sums = nullptr;
  float* kept = nullptr;
  int count = 0;
  int matrices = 0;
  KeptFactors factors[kMatricesOfLaunch] = {};
};
struct SpoilArgs {
  const double* broken = nullptr;
  float* values = nullptr;
  int ranges = 0;
  FactorRows of[kMatricesOfLaunch] = {};
};

void AddErrorsKernelCuda(const AddErrorsArgs& args, Stream& stream);
void OrthonormaliseKernelCuda(const OrthonormaliseArgs& args, Stream& stream);
void SplitOffErrorKernelCuda(const SplitOffErrorArgs& args, Stream& stream);
void KeepErrorsKernelCuda(const KeepErrorsArgs& args, Stream& stream);
void KeepFactorsKernelCuda(const KeepFactorsArgs& args, Stream& stream);
void SpoilKernelCuda(const SpoilArgs& args, Stream& stream);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_LOW_RANK_KERNEL_H_
