// device_exchange.h - sums buckets on GPUs by a device communicator, without the host.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_EXCHANGE_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_EXCHANGE_H_

#include <memory>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/device_communicator.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/internal/bucket_exchange.h"

namespace dtrain::internal {

// flat: [n] float32 on a GPU, which the stream `compute` writes. A bucket leaves when that stream
// has reached the place where Start() was called. Buckets are views of `flat`, or are rounded to
// wire_type one after another. The host waits once, in Settle(). size: the number of ranks.
std::unique_ptr<BucketExchange> MakeDeviceExchange(const Tensor& flat,
                                                   std::vector<BucketRange> buckets,
                                                   std::unique_ptr<DeviceCommunicator> gpus,
                                                   int size, const Stream& compute,
                                                   DType wire_type);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_EXCHANGE_H_
