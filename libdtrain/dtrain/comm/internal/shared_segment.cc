// shared_segment.cc - memfd_create, mmap, and /proc/PID/fd to reach another process's memory.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>

namespace dtrain::internal {
namespace {

uint64_t RandomNumber() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

// Process ids repeat between containers; this does not.
uint64_t ThisProcess() {
  static const uint64_t number = RandomNumber();
  return number;
}

uint64_t TokenOf(const std::byte* mapping) {
  uint64_t token = 0;
  std::memcpy(&token, mapping, sizeof(token));
  return token;
}

}  // namespace

bool SharedSegment::Map() {
  void* const memory =
      mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, /*offset=*/0);
  if (memory == MAP_FAILED) return false;
  mapping_ = static_cast<std::byte*>(memory);
  return true;
}

std::shared_ptr<SharedSegment> SharedSegment::Create(size_t bytes) {
  std::shared_ptr<SharedSegment> segment(new SharedSegment);
  segment->mapped_bytes_ = bytes + kHeader;
  segment->file_ = memfd_create("dtrain", MFD_CLOEXEC);
  if (segment->file_ < 0) return nullptr;
  if (ftruncate(segment->file_, static_cast<off_t>(segment->mapped_bytes_)) != 0) return nullptr;
  if (!segment->Map()) return nullptr;
  const uint64_t token = RandomNumber();
  std::memcpy(segment->mapping_, &token, sizeof(token));
  return segment;
}

std::shared_ptr<SharedSegment> SharedSegment::Open(const Descriptor& descriptor, size_t bytes) {
  if (descriptor.descriptor < 0) return nullptr;
  if (descriptor.process == ThisProcess()) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the creator's own pointer, sent to itself.
    return reinterpret_cast<SharedSegment*>(descriptor.address)->shared_from_this();
  }
  const std::string path =
      "/proc/" + std::to_string(descriptor.pid) + "/fd/" + std::to_string(descriptor.descriptor);
  std::shared_ptr<SharedSegment> segment(new SharedSegment);
  segment->mapped_bytes_ = bytes + kHeader;
  segment->file_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (segment->file_ < 0) return nullptr;
  // Another process may have this number where ranks do not see each other's processes.
  const off_t size = lseek(segment->file_, 0, SEEK_END);
  if (size != static_cast<off_t>(segment->mapped_bytes_) || !segment->Map()) return nullptr;
  segment->Seal();
  return TokenOf(segment->mapping_) == descriptor.token ? segment : nullptr;
}

SharedSegment::Descriptor SharedSegment::descriptor() const {
  return {.process = ThisProcess(),
          .token = TokenOf(mapping_),
          .pid = getpid(),
          .descriptor = file_,
          .address = reinterpret_cast<uint64_t>(this)};
}

void SharedSegment::Seal() {
  if (file_ >= 0) close(file_);
  file_ = -1;
}

SharedSegment::~SharedSegment() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
  Seal();
}

}  // namespace dtrain::internal
