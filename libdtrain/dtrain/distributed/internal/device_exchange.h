// device_exchange.h - sums buckets on GPUs by a device communicator, without the host.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_EXCHANGE_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/device_communicator.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/internal/bucket_exchange.h"

namespace dtrain::internal {

struct DeviceExchangeOptions {
  int rank = 0;
  int size = 1;                       // the number of ranks
  Stream compute;                     // writes the gradients
  DType wire_type = DType::kFloat32;  // or bfloat16, float16
  // As for MakePlainExchange(). The slices of a bucket have the same size, except the last one.
  std::vector<std::vector<int64_t>> slices = {};
};

// flat: [n] float32 on a GPU. A bucket leaves when the computing stream has reached the place where
// Start() was called. Buckets are views of `flat`, or are rounded to the wire type one after
// another. The host waits once, in Settle().
std::unique_ptr<BucketExchange> MakeDeviceExchange(const Tensor& flat,
                                                   std::vector<BucketRange> buckets,
                                                   std::shared_ptr<DeviceCommunicator> gpus,
                                                   DeviceExchangeOptions options);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_EXCHANGE_H_
