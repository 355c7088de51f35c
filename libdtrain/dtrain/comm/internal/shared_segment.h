// shared_segment.h - memory shared by all ranks of one host, in several processes or in one.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_SHARED_SEGMENT_H_
#define DTRAIN_COMM_INTERNAL_SHARED_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dtrain::internal {

// Anonymous memory of the kernel (memfd), which other processes open through /proc. It has no name
// that could be left behind, and the size of /dev/shm does not limit it.
class SharedSegment : public std::enable_shared_from_this<SharedSegment> {
 public:
  // How another rank finds the segment. It is sent as plain bytes.
  struct Descriptor {
    uint64_t process = 0;  // a random number of the creating process
    uint64_t token = 0;    // stands at the start of the segment
    int64_t pid = 0;
    int64_t descriptor = -1;
    uint64_t address = 0;  // that of the SharedSegment, for ranks in the same process
  };

  // Makes a segment of `bytes` zeros. Null if the system has no memory for it.
  static std::shared_ptr<SharedSegment> Create(size_t bytes);
  // Opens another rank's segment of that size. Null if this process cannot open it. The creator
  // keeps its own until all ranks have opened it.
  static std::shared_ptr<SharedSegment> Open(const Descriptor& descriptor, size_t bytes);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  Descriptor descriptor() const;
  // Prevents further processes from opening the segment.
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
