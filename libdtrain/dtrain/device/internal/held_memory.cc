// held_memory.cc - a table of roles and the bytes each has allocated.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/internal/held_memory.h"

#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "dtrain/device/cuda/runtime.h"

namespace dtrain::internal {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;

class HeldMemory {
 public:
  static HeldMemory& Get() {
    static HeldMemory held;
    return held;
  }

  void Take(const Device& device, const std::string& role, size_t bytes) {
    const std::scoped_lock lock(mutex_);
    by_role_[{DeviceName(device), role}] += bytes;
  }
  void Give(const Device& device, const std::string& role, size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const auto entry = by_role_.find({DeviceName(device), role});
    if ((entry->second -= bytes) == 0) by_role_.erase(entry);
  }
  // Returns for example "parameters 200 MiB, scratch 1 MiB".
  std::string Describe(const Device& device) {
    const std::scoped_lock lock(mutex_);
    std::string text;
    for (const auto& [key, bytes] : by_role_) {
      const auto& [name, role] = key;
      if (name != DeviceName(device)) continue;
      text += (text.empty() ? "" : ", ") + role + " " + std::to_string(bytes / kMebibyte) + " MiB";
    }
    return text.empty() ? "nothing" : text;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, size_t> by_role_;  // device and role -> bytes
};

DeviceMemoryError Full(const Device& device, bool is_pinned, const std::string& user,
                       size_t wanted) {
  const std::string full =
      is_pinned ? "the host has no more pinned memory" : DeviceName(device) + " is full";
  return DeviceMemoryError(full + ": " + user + " need " + std::to_string(wanted / kMebibyte + 1) +
                           " MiB more (held: " + HeldMemory::Get().Describe(device) + ")");
}

}  // namespace

void* TakeMemory(const Device& device, const std::string& role, size_t bytes, size_t wanted,
                 ArenaMemory memory, std::string_view user) {
  const bool is_pinned = memory == ArenaMemory::kPinned;
  void* base = nullptr;
  try {
    base = is_pinned ? cuda::AllocatePinned(device, bytes) : cuda::Allocate(device, bytes);
  } catch (const std::bad_alloc&) {
    const std::string use = user.empty() ? std::string() : " (" + std::string(user) + ")";
    throw Full(device, is_pinned, role + use, wanted);
  }
  if (!is_pinned) HeldMemory::Get().Take(device, role, bytes);
  return base;
}

void GiveMemory(const Device& device, const std::string& role, void* base, size_t bytes,
                ArenaMemory memory) {
  if (memory == ArenaMemory::kPinned) return cuda::FreePinned(base);
  cuda::Free(device, base);
  HeldMemory::Get().Give(device, role, bytes);
}

void GrowSpace(const Device& device, const std::string& role, cuda::AddressSpace& space,
               size_t bytes, size_t wanted) {
  try {
    space.Grow(bytes);
  } catch (const std::bad_alloc&) {
    throw Full(device, /*is_pinned=*/false, role, wanted);
  }
  HeldMemory::Get().Take(device, role, bytes);
}

void GiveSpace(const Device& device, const std::string& role,
               std::shared_ptr<cuda::AddressSpace> space) {
  const size_t bytes = space->backed();
  space.reset();
  if (bytes > 0) HeldMemory::Get().Give(device, role, bytes);
}

}  // namespace dtrain::internal
