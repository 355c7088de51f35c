// device_slices.h - sums and gathers the ranks' slices of a bucket between GPUs.
// SPDX-License-Identifier: Apache-2.0
//
// NCCL wants slices of the same size. The last slice may be longer by what could not be divided,
// which is less than a block for each rank: it travels by itself, to or from all of them.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_SLICES_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_SLICES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "dtrain/base/check.h"
#include "dtrain/comm/device_communicator.h"
#include "dtrain/device/tensor.h"

namespace dtrain::internal {

struct DeviceSlices {
  // offsets: where the ranks' slices begin and the last one ends, [ranks + 1].
  explicit DeviceSlices(std::span<const int64_t> offsets)
      : last_rank(static_cast<int>(offsets.size()) - 2),
        share(offsets[1] - offsets[0]),
        divided(share * (last_rank + 1)),
        rest(offsets.back() - offsets.front() - divided) {
    DT_CHECK_GE(rest, 0);
    DT_CHECK(last_rank == 0 || offsets[offsets.size() - 2] - offsets[0] == share * last_rank)
        << "slices of a GPU's bucket have the same size";
  }

  int last_rank;
  int64_t share;    // elements of a slice
  int64_t divided;  // elements of all slices without the rest
  int64_t rest;     // elements that the last slice has besides
};

// values: [offsets.back() - offsets.front()]. Rank r receives the sums of elements
// [offsets[r], offsets[r + 1]) - offsets[0]; the others are unspecified afterwards.
inline void ScatterSums(const Tensor& values, std::span<const int64_t> offsets,
                        DeviceCommunicator& gpus) {
  const DeviceSlices slices(offsets);
  DT_CHECK_EQ(values.elements(), slices.divided + slices.rest);
  gpus.ReduceScatter(values.raw(), slices.share, values.dtype(), ReduceOp::kSum);
  if (slices.rest == 0) return;
  const Tensor rest = values.Rows(slices.divided, values.elements());
  gpus.AllReduce(rest.raw(), rest.elements(), rest.dtype(), ReduceOp::kSum);
}

// Every rank receives all slices.
inline void GatherSlices(const Tensor& values, std::span<const int64_t> offsets,
                         DeviceCommunicator& gpus) {
  const DeviceSlices slices(offsets);
  DT_CHECK_EQ(values.elements(), slices.divided + slices.rest);
  gpus.AllGather(values.raw(), slices.share, values.dtype());
  if (slices.rest == 0) return;
  const Tensor rest = values.Rows(slices.divided, values.elements());
  gpus.Broadcast(rest.raw(), static_cast<int64_t>(rest.bytes()), slices.last_rank);
}

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_SLICES_H_
