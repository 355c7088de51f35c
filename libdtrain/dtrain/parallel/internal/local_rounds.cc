// local_rounds.cc - means weighted by tokens, through the host's memory.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/parallel/internal/local_rounds.h"

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/copy.h"
#include "dtrain/tensor/copy.h"

namespace dtrain::internal {

void LocalRounds::Average() {
  const int64_t all = comm_.AllReduceValue(tokens_, ReduceOp::kSum);
  const double share = all > 0 ? static_cast<double>(tokens_) / static_cast<double>(all)
                               : 1.0 / static_cast<double>(comm_.size());
  for (Tensor values :
       {parameters_.weights(), adam_.first_moments(), adam_.second_moments(), adam_.average()}) {
    if (values) Average(values, static_cast<float>(share));
  }
  parameters_.RefreshComputeWeights();
  tokens_ = 0;
  is_open_ = false;
}

void LocalRounds::Average(Tensor& values, float share) {
  Stream stream(values.device());
  SynchronizeDevice(values.device());
  const Tensor host = ToHost(values, stream);
  float* const data = host.data<float>();
  constexpr int64_t kGrain = 1 << 16;
  ParallelFor(host.elements(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) data[i] *= share;
  });
  comm_.AllReduce(data, host.elements(), DType::kFloat32, ReduceOp::kSum);
  if (host.raw() == values.raw()) return;
  CopyToDevice(values.raw(), host.raw(), host.bytes(), stream);
  stream.Synchronize();
}

}  // namespace dtrain::internal
