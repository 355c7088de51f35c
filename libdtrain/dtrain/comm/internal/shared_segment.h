// shared_segment.h - memory that all ranks of one host see: between processes, or within one.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_SHARED_SEGMENT_H_
#define DTRAIN_COMM_INTERNAL_SHARED_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dtrain::internal {

// Anonymous memory of the kernel (memfd), which other processes open through /proc: it has no name
// that could be left behind, and the size of /dev/shm does not bound it.
class SharedSegment : public std::enable_shared_from_this<SharedSegment> {
 public:
  // Where to find a segment. Plain bytes: it is sent as it lies.
  struct Descriptor {
    uint64_t process = 0;  // a random number of the creating process
    uint64_t token = 0;    // stands at the start of the segment
    int64_t pid = 0;
    int64_t descriptor = -1;
    uint64_t address = 0;  // of the SharedSegment, for ranks in the same process
  };

  // `bytes` zeros; null where the system has none to give.
  static std::shared_ptr<SharedSegment> Create(size_t bytes);
  // Another rank's segment of that size; null where this process cannot see it. The creator keeps
  // its own until all have opened it.
  static std::shared_ptr<SharedSegment> Open(const Descriptor& descriptor, size_t bytes);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  Descriptor descriptor() const;
  // Closes the way for further processes.
  void Seal();
  // Aligned to a page.
  std::byte* data() const { return mapping_ + kHeader; }

 private:
  static constexpr size_t kHeader = 4096;
  SharedSegment() = default;
  bool Map();

  int file_ = -1;
  std::byte* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_SHARED_SEGMENT_H_
