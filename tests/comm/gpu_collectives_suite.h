// gpu_collectives_suite.h - how named collectives behave where the tensors lie on GPUs.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_COMM_GPU_COLLECTIVES_SUITE_H_
#define DTRAIN_TESTS_COMM_GPU_COLLECTIVES_SUITE_H_

#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/device/device.h"

namespace dtrain {

// All named collectives, and DistributedGradients, on tensors that a stream of `device` is still
// computing when they are submitted, beside what the ranks' numbers let expect. What was wrong;
// empty where nothing was. All ranks call it.
std::vector<std::string> NamedGpuCollectiveErrors(Communicator& comm, const Device& device);

}  // namespace dtrain

#endif  // DTRAIN_TESTS_COMM_GPU_COLLECTIVES_SUITE_H_
