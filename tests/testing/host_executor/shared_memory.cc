// shared_memory.cc - one reservation per OS thread; objects lie in it with fences between them.
// SPDX-License-Identifier: Apache-2.0
#include "testing/host_executor/shared_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace dtrain::host_executor {
namespace {

constexpr unsigned char kPoison = 0xff;  // NaN in every float format
constexpr unsigned char kFencePattern = 0xfd;

void Forbid(unsigned char* begin, size_t bytes) {
  std::memset(begin, kFencePattern, bytes);
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(begin, bytes);
#endif
}

void Permit(unsigned char* begin, size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(begin, bytes);
#endif
  std::memset(begin, kPoison, bytes);
}

}  // namespace

SharedMemory::SharedMemory() {
  void* memory = mmap(nullptr, kReserved, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<unsigned char*>(memory);
}

SharedMemory::~SharedMemory() {
  Permit(memory_, used_);
  munmap(memory_, kReserved);
}

void SharedMemory::Reset(size_t dynamic_bytes) {
  Permit(memory_, used_);
  objects_.clear();
  static_bytes_ = 0;
  Forbid(memory_, kFence);
  used_ = kFence;
  dynamic_ = Add(nullptr, dynamic_bytes, 1024);
}

unsigned char* SharedMemory::Add(const void* key, size_t bytes, size_t alignment) {
  size_t begin = (used_ + alignment - 1) / alignment * alignment;
  // No better aligned than promised, so that a kernel that needs more is found.
  if (begin % (2 * alignment) == 0) begin += alignment;
  unsigned char* object = memory_ + begin;
  const size_t fence_begin = begin + bytes;
  const size_t end = (fence_begin + kFence + 7) / 8 * 8;
  Forbid(memory_ + used_, end - used_);
  Permit(object, bytes);
  used_ = end;
  objects_.push_back({key, object, bytes});
  return object;
}

void* SharedMemory::Static(const void* key, size_t bytes, size_t alignment) {
  for (const Object& object : objects_) {
    if (object.key == key) return object.begin;
  }
  static_bytes_ += bytes;
  if (static_bytes_ > kMaxStaticBytes) return nullptr;
  if (static_bytes_ + objects_.front().bytes > kMaxBytes) return nullptr;
  if (used_ + bytes + alignment * 2 + kFence + 8 > kReserved) return nullptr;
  return Add(key, bytes, alignment);
}

bool SharedMemory::Contains(const void* address, size_t bytes) const {
  const auto* begin = static_cast<const unsigned char*>(address);
  return std::any_of(objects_.begin(), objects_.end(), [&](const Object& object) {
    return begin >= object.begin && begin + bytes <= object.begin + object.bytes;
  });
}

const unsigned char* SharedMemory::FindOverrun() const {
#if defined(__SANITIZE_ADDRESS__)
  return nullptr;  // the sanitizer has the fences, and stops at the access itself
#else
  const unsigned char* at = memory_;
  const auto is_written = [](unsigned char byte) { return byte != kFencePattern; };
  for (const Object& object : objects_) {
    const unsigned char* found =
        std::find_if(at, static_cast<const unsigned char*>(object.begin), is_written);
    if (found != object.begin) return found;
    at = object.begin + object.bytes;
  }
  const unsigned char* end = memory_ + used_;
  const unsigned char* found = std::find_if(at, end, is_written);
  return found == end ? nullptr : found;
#endif
}

std::string SharedMemory::Describe(const void* address) const {
  if (!IsNear(address)) return "another memory";
  const auto* byte = static_cast<const unsigned char*>(address);
  const Object* nearest = &objects_.front();
  for (const Object& object : objects_) {
    if (object.begin <= byte) nearest = &object;
  }
  const char* const kind = nearest->key == nullptr ? " dynamic bytes" : " bytes of an object";
  return absl::StrCat("byte ", byte - nearest->begin, " of the ", nearest->bytes, kind);
}

}  // namespace dtrain::host_executor
