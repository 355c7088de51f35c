// device_collectives_suite.h - what any device communicator must compute, beside the host's.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_COMM_DEVICE_COLLECTIVES_SUITE_H_
#define DTRAIN_TESTS_COMM_DEVICE_COLLECTIVES_SUITE_H_

#include <string>
#include <vector>

#include "dtrain/comm/device_communicator.h"

namespace dtrain {

// Does every collective with every type and operation, in place and in groups, behind and before
// other work of a stream, and the same by `comm`. What differed; empty where nothing did. All ranks
// call it.
std::vector<std::string> DeviceCollectiveErrors(Communicator& comm, DeviceCommunicator& gpus);

}  // namespace dtrain

#endif  // DTRAIN_TESTS_COMM_DEVICE_COLLECTIVES_SUITE_H_
