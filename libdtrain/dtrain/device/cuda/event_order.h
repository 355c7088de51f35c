// event_order.h - the event functions of runtime.h that streams wait with and the host queries.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_EVENT_ORDER_H_
#define DTRAIN_DEVICE_CUDA_EVENT_ORDER_H_

#include "dtrain/device/device.h"

namespace dtrain::cuda {

// True if the device has passed the recorded point.
bool HasPassed(const Device& device, void* event);
// Makes work issued to `stream` from now on wait, on the device, until the point is passed. The
// event may be destroyed at once.
void MakeWait(const Device& device, void* stream, void* event);

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_EVENT_ORDER_H_
