// held_memory.h - a GPU's memory by who holds it, for the message when it is full.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_INTERNAL_HELD_MEMORY_H_
#define DTRAIN_DEVICE_INTERNAL_HELD_MEMORY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "dtrain/device/arena.h"
#include "dtrain/device/cuda/address_space.h"
#include "dtrain/device/device.h"

namespace dtrain::internal {

// Memory of a GPU, or pinned memory of the host, for `role` ("activations"). Where there is none
// left, DeviceMemoryError says that the role needs `wanted` bytes, for which `user` where that is
// known, and who holds what. Any thread.
void* TakeMemory(const Device& device, const std::string& role, size_t bytes, size_t wanted,
                 ArenaMemory memory, std::string_view user = {});
void GiveMemory(const Device& device, const std::string& role, void* base, size_t bytes,
                ArenaMemory memory);

// More memory for `space`, as TakeMemory() does; GiveSpace() gives all of it back.
void GrowSpace(const Device& device, const std::string& role, cuda::AddressSpace& space,
               size_t bytes, size_t wanted);
void GiveSpace(const Device& device, const std::string& role,
               std::shared_ptr<cuda::AddressSpace> space);

}  // namespace dtrain::internal

#endif  // DTRAIN_DEVICE_INTERNAL_HELD_MEMORY_H_
