// held_memory.h - counts a GPU's memory by role, for the error message when it is full.
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

// Allocates GPU memory, or pinned host memory, for `role` ("activations"). Any thread may call it.
// If nothing is left, throws DeviceMemoryError: the message says that the role needs `wanted`
// bytes, for which `user` if given, and how much each role holds.
void* TakeMemory(const Device& device, const std::string& role, size_t bytes, size_t wanted,
                 ArenaMemory memory, std::string_view user = {});
void GiveMemory(const Device& device, const std::string& role, void* base, size_t bytes,
                ArenaMemory memory);

// Adds memory to `space` with the errors of TakeMemory(). GiveSpace() frees all of it.
void GrowSpace(const Device& device, const std::string& role, cuda::AddressSpace& space,
               size_t bytes, size_t wanted);
void GiveSpace(const Device& device, const std::string& role,
               std::shared_ptr<cuda::AddressSpace> space);

}  // namespace dtrain::internal

#endif  // DTRAIN_DEVICE_INTERNAL_HELD_MEMORY_H_
