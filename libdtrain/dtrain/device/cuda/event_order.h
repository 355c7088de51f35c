// event_order.h - events that other streams wait for and that the host asks about: with runtime.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_EVENT_ORDER_H_
#define DTRAIN_DEVICE_CUDA_EVENT_ORDER_H_

#include "dtrain/device/device.h"

namespace dtrain::cuda {

// Whether the device has passed the recorded point.
bool HasPassed(const Device& device, void* event);
// What `stream` is given from now on waits, on the device, until the point is passed; the event may
// be destroyed at once.
void MakeWait(const Device& device, void* stream, void* event);

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_EVENT_ORDER_H_
