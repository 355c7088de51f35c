// token_shard_format.h - the header of a token shard and where its sections lie.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_TOKEN_SHARD_FORMAT_H_
#define DTRAIN_DATA_INTERNAL_TOKEN_SHARD_FORMAT_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "dtrain/base/crc.h"

namespace dtrain::internal {

static_assert(std::endian::native == std::endian::little, "shards are mapped as they are");

inline constexpr char kTokenShardMagic[8] = {'D', 'T', 'S', 'H', 'A', 'R', 'D', '\n'};
inline constexpr uint32_t kTokenShardVersion = 1;

struct TokenShardHeader {
  char magic[8] = {};
  uint32_t version = 0;
  uint32_t id_bytes = 0;  // 2 or 4
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0;
  uint64_t options_hash = 0;
  int64_t pairs = 0;
  int64_t source_tokens = 0;
  int64_t target_tokens = 0;
  uint32_t body_crc = 0;  // CRC32C of all bytes after the header
  uint8_t reserved[52] = {};
  uint32_t padding = 0;
  uint32_t header_crc = 0;  // CRC32C of all bytes before it

  uint32_t ComputeCrc() const {
    return Crc32c(std::as_bytes(std::span(this, 1)).first(offsetof(TokenShardHeader, header_crc)));
  }
};
static_assert(sizeof(TokenShardHeader) == 128 && offsetof(TokenShardHeader, header_crc) == 124);

// Byte positions in the file.
struct TokenShardLayout {
  explicit TokenShardLayout(const TokenShardHeader& h) {
    const int64_t id_bytes = (h.source_tokens + h.target_tokens) * h.id_bytes;
    ids = static_cast<int64_t>(sizeof(TokenShardHeader));
    offsets = ids + (id_bytes + 7) / 8 * 8;
    source_lengths = offsets + (h.pairs + 1) * 8;
    target_lengths = source_lengths + (h.pairs * 4 + 7) / 8 * 8;
    end = target_lengths + (h.pairs * 4 + 7) / 8 * 8;
  }
  int64_t ids = 0;
  int64_t offsets = 0;
  int64_t source_lengths = 0;
  int64_t target_lengths = 0;
  int64_t end = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_TOKEN_SHARD_FORMAT_H_
