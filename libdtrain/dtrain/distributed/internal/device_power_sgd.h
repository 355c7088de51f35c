// device_power_sgd.h - PowerSGD between GPUs: nothing but the factors leaves them.
// SPDX-License-Identifier: Apache-2.0
//
// The steps are those of power_sgd_exchange.h. Products, errors and the memory of errors are the
// GPU's, and NCCL adds the factors; all of it runs in the order of the communicator's stream, while
// backward computes. The host waits once, in Settle(). Every GPU is a worker of its own, also where
// a host has several: between them NCCL is fast, and no whole gradient has to travel first.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_POWER_SGD_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_POWER_SGD_H_

#include <memory>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/device_communicator.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/internal/compressed_exchange.h"

namespace dtrain::internal {

// flat: [n] float32 on a GPU. `parameters` of the buckets. options.stream writes the gradients.
std::unique_ptr<CompressedExchange> MakeDevicePowerSgd(const Tensor& flat,
                                                       const std::vector<BucketRange>& buckets,
                                                       const std::vector<GradientRange>& parameters,
                                                       const Communicator& comm,
                                                       std::shared_ptr<DeviceCommunicator> gpus,
                                                       const GradientReducerOptions& options);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_DEVICE_POWER_SGD_H_
