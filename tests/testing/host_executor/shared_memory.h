// shared_memory.h - a block's shared memory, poisoned and fenced.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_HOST_EXECUTOR_SHARED_MEMORY_H_
#define DTRAIN_TESTING_HOST_EXECUTOR_SHARED_MEMORY_H_

#include <cstddef>
#include <string>
#include <vector>

namespace dtrain::host_executor {

class SharedMemory {
 public:
  // What a block of sm_90 may take, static and dynamic; a static object alone: 48 KiB.
  static constexpr size_t kMaxBytes = size_t{227} << 10;
  static constexpr size_t kMaxStaticBytes = size_t{48} << 10;

  SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  // A new block: nothing but `dynamic_bytes`, every byte 0xff.
  void Reset(size_t dynamic_bytes);
  unsigned char* dynamic() const { return dynamic_; }
  // The object of `key`, made (0xff) when first asked for. Null where it does not fit.
  void* Static(const void* key, size_t bytes, size_t alignment);

  // Whether all bytes lie in one object; whether the first one lies anywhere near them.
  bool Contains(const void* address, size_t bytes) const;
  bool IsNear(const void* address) const {
    return static_cast<size_t>(static_cast<const unsigned char*>(address) - memory_) < kReserved;
  }
  // A byte outside of all objects that was written, or null.
  const unsigned char* FindOverrun() const;
  // "byte 2060 of the 2048 dynamic bytes".
  std::string Describe(const void* address) const;

 private:
  struct Object {
    const void* key;  // null: the dynamic bytes
    unsigned char* begin;
    size_t bytes;
  };
  static constexpr size_t kFence = 512;  // before the first object and after each
  static constexpr size_t kReserved = size_t{1} << 20;

  unsigned char* Add(const void* key, size_t bytes, size_t alignment);

  unsigned char* memory_ = nullptr;
  unsigned char* dynamic_ = nullptr;
  size_t used_ = 0;          // of memory_, fences included
  size_t static_bytes_ = 0;  // of all objects with a key
  std::vector<Object> objects_;
};

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTING_HOST_EXECUTOR_SHARED_MEMORY_H_
