// classification_shard_format.h - the header of a classification shard and where its sections lie.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_CLASSIFICATION_SHARD_FORMAT_H_
#define DTRAIN_DATA_INTERNAL_CLASSIFICATION_SHARD_FORMAT_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dtrain/base/crc.h"
#include "dtrain/data/internal/shard_body.h"

namespace dtrain::internal {

static_assert(std::endian::native == std::endian::little, "shards are mapped as they are");

inline constexpr char kClassificationMagic[8] = {'D', 'T', 'C', 'L', 'A', 'S', 'S', '\n'};
inline constexpr uint32_t kClassificationVersion = 1;

struct ClassificationHeader {
  char magic[8] = {};
  uint32_t version = 0;
  uint32_t id_bytes = 0;  // 2 or 4
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0;
  uint64_t key = 0;
  int64_t rows = 0;
  int64_t tokens = 0;
  int64_t name_bytes = 0;
  int64_t metadata_bytes = 0;
  int32_t labels_per_row = 0;
  int32_t label_kind = 0;
  uint32_t body_crc = 0;  // CRC32C of all bytes after the header
  uint8_t reserved[36] = {};
  uint32_t padding = 0;
  uint32_t header_crc = 0;  // CRC32C of all bytes before it

  uint32_t ComputeCrc() const {
    return Crc32c(
        std::as_bytes(std::span(this, 1)).first(offsetof(ClassificationHeader, header_crc)));
  }
  // Every count fits a file of so many bytes, so that positions do not overflow.
  bool IsPlausible(int64_t file_bytes) const {
    const auto fits = [&](int64_t count, int64_t bytes_each) {
      return count >= 0 && count <= file_bytes / bytes_each;
    };
    return (id_bytes == 2 || id_bytes == 4) && vocab_size > 0 && fits(rows, 8) &&
           fits(tokens, id_bytes) && fits(name_bytes, 1) && fits(metadata_bytes, 1) &&
           labels_per_row > 0 && labels_per_row <= 4096;
  }
};
static_assert(sizeof(ClassificationHeader) == 128 &&
              offsetof(ClassificationHeader, header_crc) == 124);

// Byte positions in the file.
struct ClassificationLayout {
  explicit ClassificationLayout(const ClassificationHeader& h) {
    ids = static_cast<int64_t>(sizeof(ClassificationHeader));
    offsets = ids + Align8(h.tokens * h.id_bytes);
    lengths = offsets + (h.rows + 1) * 8;
    first_lengths = lengths + Align8(h.rows * 4);
    labels = first_lengths + Align8(h.rows * 4);
    weights = labels + Align8(h.rows * h.labels_per_row * 4);
    groups = weights + Align8(h.rows * 4);
    rows = groups + Align8(h.rows * 4);
    name_offsets = rows + h.rows * 8;
    names = name_offsets + (h.rows + 1) * 8;
    metadata = names + Align8(h.name_bytes);
    end = metadata + Align8(h.metadata_bytes);
  }
  int64_t ids = 0;
  int64_t offsets = 0;
  int64_t lengths = 0;
  int64_t first_lengths = 0;
  int64_t labels = 0;
  int64_t weights = 0;
  int64_t groups = 0;
  int64_t rows = 0;
  int64_t name_offsets = 0;
  int64_t names = 0;
  int64_t metadata = 0;
  int64_t end = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_CLASSIFICATION_SHARD_FORMAT_H_
