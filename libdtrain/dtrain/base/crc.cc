// crc.cc - CRC32C computed by the ISA-L library.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/crc.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace dtrain {

uint32_t Crc32c(std::span<const std::byte> data, uint32_t previous) {
  // ISA-L takes a non-const pointer, although it only reads, and an int as length.
  constexpr size_t kChunk = size_t{1} << 30;
  auto* bytes = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(data.data()));
  uint32_t crc = ~previous;
  for (size_t done = 0; done < data.size(); done += kChunk) {
    crc = crc32_iscsi(bytes + done, static_cast<int>(std::min(kChunk, data.size() - done)), crc);
  }
  return ~crc;
}

uint32_t Crc32c(std::string_view data, uint32_t previous) {
  return Crc32c(std::as_bytes(std::span(data)), previous);
}

uint32_t MaskedCrc32c(std::string_view data) {
  const uint32_t crc = Crc32c(data);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace dtrain
