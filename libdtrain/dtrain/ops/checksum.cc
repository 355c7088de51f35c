// checksum.cc - checks the arguments; the CPU adds pieces of the sum in any order.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/checksum.h"

#include <atomic>
#include <bit>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/checksum_kernel.h"
#include "dtrain/ops/internal/op_support.h"

namespace dtrain {

void Checksum(const Tensor& x, Tensor& sum, Stream& stream) {
  CheckTensor("Checksum", "x", x, x.shape(), DType::kFloat32, stream);
  CheckContiguous("Checksum", "x", x);
  CheckTensor("Checksum", "sum", sum, {1}, DType::kInt64, stream);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    const float* const data = x.data<float>();
    if constexpr (D == DeviceType::kCpu) {
      std::atomic<uint64_t> total{0};
      ParallelFor(x.elements(), kGrainElements, [&](int64_t begin, int64_t end) {
        uint64_t part = 0;
        for (int64_t i = begin; i < end; ++i) {
          part += std::bit_cast<uint32_t>(data[i]) * (2 * static_cast<uint64_t>(i) + 1);
        }
        total += part;
      });
      *sum.data<int64_t>() = static_cast<int64_t>(total.load());
    } else {
      ChecksumKernelCuda({.x = data, .elements = x.elements(), .sum = sum.data<int64_t>()}, stream);
    }
  });
}

}  // namespace dtrain
