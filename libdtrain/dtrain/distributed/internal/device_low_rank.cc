// device_low_rank.cc - launches, each of as many matrices as its arguments hold.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/device_low_rank.h"

#include <algorithm>
#include <cstddef>

#include "dtrain/base/check.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/distributed/internal/device_low_rank_kernel.h"

namespace dtrain::internal {
namespace {

// Calls body(the next matrices of a launch).
template <typename Item, typename Body>
void InLaunches(std::span<const Item> items, const Body& body) {
  while (!items.empty()) {
    const size_t some = std::min<size_t>(items.size(), kMatricesOfLaunch);
    body(items.first(some));
    items = items.subspan(some);
  }
}

}  // namespace

void AddErrorsOnDevice(const AddErrorsArgs& args, Stream& stream) {
  if constexpr (kWithCuda) AddErrorsKernelCuda(args, stream);
}

void OrthonormaliseOnDevice(float* rows, std::span<const FactorRows> factors, int count,
                            Stream& stream) {
  DT_CHECK_LE(count, kMostFactors);
  InLaunches(factors, [&](std::span<const FactorRows> some) {
    OrthonormaliseArgs args{
        .rows = rows, .count = count, .matrices = static_cast<int>(some.size())};
    std::ranges::copy(some, args.factors);
    if constexpr (kWithCuda) OrthonormaliseKernelCuda(args, stream);
  });
}

void SplitOffErrorOnDevice(const SplitOffErrorArgs& args, Stream& stream) {
  if constexpr (kWithCuda) SplitOffErrorKernelCuda(args, stream);
}

void KeepErrorsOnDevice(const double* broken, const float* next, float* kept, int64_t elements,
                        Stream& stream) {
  if constexpr (kWithCuda) {
    KeepErrorsKernelCuda({.broken = broken, .next = next, .kept = kept, .elements = elements},
                         stream);
  }
}

void KeepFactorsOnDevice(const double* broken, const float* sums, float* kept,
                         std::span<const KeptFactors> factors, int count, Stream& stream) {
  InLaunches(factors, [&](std::span<const KeptFactors> some) {
    KeepFactorsArgs args{.broken = broken,
                         .sums = sums,
                         .kept = kept,
                         .count = count,
                         .matrices = static_cast<int>(some.size())};
    std::ranges::copy(some, args.factors);
    if constexpr (kWithCuda) KeepFactorsKernelCuda(args, stream);
  });
}

void SpoilOnDevice(const double* broken, float* values, std::span<const FactorRows> ranges,
                   Stream& stream) {
  InLaunches(ranges, [&](std::span<const FactorRows> some) {
    SpoilArgs args{.broken = broken, .values = values, .ranges = static_cast<int>(some.size())};
    std::ranges::copy(some, args.of);
    if constexpr (kWithCuda) SpoilKernelCuda(args, stream);
  });
}

}  // namespace dtrain::internal
