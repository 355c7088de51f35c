// crc.h - CRC32C, the checksum of checkpoints and TensorBoard records.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_CRC_H_
#define DTRAIN_BASE_CRC_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace dtrain {

// CRC32C (Castagnoli) of `data`. `previous` is the checksum of the bytes before `data`: Crc32c(b,
// Crc32c(a)) is the checksum of a followed by b.
uint32_t Crc32c(std::span<const std::byte> data, uint32_t previous = 0);
uint32_t Crc32c(std::string_view data, uint32_t previous = 0);

// The masked checksum of the TFRecord format: rotated and shifted. CRCs of data that itself
// contains CRCs are weak without the mask.
uint32_t MaskedCrc32c(std::string_view data);

}  // namespace dtrain

#endif  // DTRAIN_BASE_CRC_H_
