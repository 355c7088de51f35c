// crc32c.h - CRC32C of bytes that come in pieces.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_CRC32C_H_
#define DTRAIN_DATA_INTERNAL_CRC32C_H_

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace dtrain::internal {

class Crc32c {
 public:
  void Add(const void* data, size_t bytes) {
    // ISA-L takes an int and, by its signature only, memory that it could write to.
    auto* p = static_cast<unsigned char*>(const_cast<void*>(data));
    while (bytes > 0) {
      const size_t n = std::min<size_t>(bytes, 1 << 30);
      state_ = crc32_iscsi(p, static_cast<int>(n), state_);
      p += n;
      bytes -= n;
    }
  }
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = ~0u;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_CRC32C_H_
