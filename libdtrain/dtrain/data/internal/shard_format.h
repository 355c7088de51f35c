// shard_format.h - the headers of shards: 128 bytes with a common start and end.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_SHARD_FORMAT_H_
#define DTRAIN_DATA_INTERNAL_SHARD_FORMAT_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "dtrain/base/crc.h"

namespace dtrain::internal {

static_assert(std::endian::native == std::endian::little, "shards are mapped as they are");

inline constexpr size_t kShardHeaderBytes = 128;

// Bytes per id: uint16 if the vocabulary is small enough, otherwise uint32.
inline uint32_t IdBytes(int64_t vocab_size) { return vocab_size <= 65536 ? 2 : 4; }
inline int64_t Align8(int64_t bytes) { return (bytes + 7) / 8 * 8; }

struct ShardKind {
  std::string_view name;   // used in messages
  std::string_view magic;  // 8 bytes
  uint32_t version;
};

// The first 40 bytes of each header.
struct ShardStart {
  char magic[8] = {};
  uint32_t version = 0;
  uint32_t id_bytes = 0;  // 2 or 4
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0;
  uint64_t key = 0;  // hash of the preparation's inputs and options
};

inline ShardStart StartOf(const ShardKind& kind, int64_t vocab_size, uint64_t vocab_hash,
                          uint64_t key) {
  ShardStart start{.version = kind.version,
                   .id_bytes = IdBytes(vocab_size),
                   .vocab_size = vocab_size,
                   .vocab_hash = vocab_hash,
                   .key = key};
  std::memcpy(start.magic, kind.magic.data(), sizeof(start.magic));
  return start;
}

inline constexpr ShardKind kTokenShard = {"token shard", "DTSHARD\n", 1};
struct TokenShardHeader {
  ShardStart start;
  int64_t pairs = 0;
  int64_t source_tokens = 0;
  int64_t target_tokens = 0;
  uint32_t body_crc = 0;  // CRC32C of all bytes after the header
  uint32_t sources = 0;   // 0: the pairs are of one source
  uint8_t reserved[48] = {};
  uint32_t padding = 0;
  uint32_t header_crc = 0;  // CRC32C of all bytes before it
};

inline constexpr ShardKind kDocumentShard = {"document shard", "DTDOCUM\n", 1};
struct DocumentHeader {
  ShardStart start;
  int64_t documents = 0;
  int64_t segments = 0;
  int64_t tokens = 0;
  int64_t report_bytes = 0;
  int32_t cls_id = 0;
  int32_t sep_id = 0;
  int32_t mask_id = 0;
  uint32_t body_crc = 0;
  uint8_t reserved[32] = {};
  uint32_t padding = 0;
  uint32_t header_crc = 0;
};

inline constexpr ShardKind kClassificationShard = {"classification shard", "DTCLASS\n", 1};
struct ClassificationHeader {
  ShardStart start;
  int64_t rows = 0;
  int64_t tokens = 0;
  int64_t name_bytes = 0;
  int64_t metadata_bytes = 0;
  int32_t labels_per_row = 0;
  int32_t label_kind = 0;
  uint32_t body_crc = 0;
  uint8_t reserved[36] = {};
  uint32_t padding = 0;
  uint32_t header_crc = 0;
};

// CRC32C of a header, without the CRC at its end.
inline uint32_t HeaderCrc(std::span<const std::byte, kShardHeaderBytes> header) {
  return Crc32c(header.first<kShardHeaderBytes - sizeof(uint32_t)>());
}

// Completes a header with its checksums.
template <typename Header>
void Seal(uint32_t body_crc, Header& header) {
  static_assert(offsetof(Header, header_crc) == kShardHeaderBytes - sizeof(uint32_t));
  header.body_crc = body_crc;
  header.header_crc = HeaderCrc(std::as_bytes(std::span<const Header, 1>(&header, 1)));
}

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_SHARD_FORMAT_H_
