// choose_device.h - which device a rank computes on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_CHOOSE_DEVICE_H_
#define DTRAIN_LAUNCH_CHOOSE_DEVICE_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/device.h"
#include "dtrain/launch/run_on_ranks.h"

namespace dtrain {

// kAuto takes a GPU where this build and this host have one. The ranks of a host take its GPUs in
// order, or the one that their launcher lets each of them see. Local: asks no other rank.
// UsageError: no GPU or driver where one is asked for, fewer GPUs than ranks, one too old.
StatusOr<Device> ChooseDevice(DeviceChoice choice, const Communicator& comm);

// Returns what CheckDevices() compares: "cpu", or the id of the GPU, with NCCL_HOSTID if that is
// set. Ranks with different values of NCCL_HOSTID may share a GPU, for tests (docs/dev/kernels.md).
std::string DeviceIdentity(const Device& device);

// UsageError on all ranks where some compute on CPUs and some on GPUs, or two have the same GPU's
// identity. Collective.
Status CheckDevices(const Device& device, Communicator& comm);

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_CHOOSE_DEVICE_H_
