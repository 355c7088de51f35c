// document_shard_format.h - the header of a document shard and where its sections lie.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_DOCUMENT_SHARD_FORMAT_H_
#define DTRAIN_DATA_INTERNAL_DOCUMENT_SHARD_FORMAT_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dtrain/base/crc.h"
#include "dtrain/data/internal/shard_body.h"

namespace dtrain::internal {

static_assert(std::endian::native == std::endian::little, "shards are mapped as they are");

inline constexpr char kDocumentMagic[8] = {'D', 'T', 'D', 'O', 'C', 'U', 'M', '\n'};
inline constexpr uint32_t kDocumentVersion = 1;

struct DocumentHeader {
  char magic[8] = {};
  uint32_t version = 0;
  uint32_t id_bytes = 0;  // 2 or 4
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0;
  uint64_t key = 0;
  int64_t documents = 0;
  int64_t segments = 0;
  int64_t tokens = 0;
  int64_t report_bytes = 0;
  int32_t cls_id = 0;
  int32_t sep_id = 0;
  int32_t mask_id = 0;
  uint32_t body_crc = 0;  // CRC32C of all bytes after the header
  uint8_t reserved[32] = {};
  uint32_t padding = 0;
  uint32_t header_crc = 0;  // CRC32C of all bytes before it

  uint32_t ComputeCrc() const {
    return Crc32c(std::as_bytes(std::span(this, 1)).first(offsetof(DocumentHeader, header_crc)));
  }
  // Every count fits a file of so many bytes, so that positions do not overflow.
  bool IsPlausible(int64_t file_bytes) const {
    const auto fits = [&](int64_t count, int64_t bytes_each) {
      return count >= 0 && count <= file_bytes / bytes_each;
    };
    const auto is_id = [&](int32_t id) { return id >= 0 && id < vocab_size; };
    return (id_bytes == 2 || id_bytes == 4) && vocab_size > 0 && fits(vocab_size, 1) &&
           fits(documents, 16) && fits(segments, 2) && fits(tokens, id_bytes) &&
           fits(report_bytes, 1) && is_id(cls_id) && is_id(sep_id) && is_id(mask_id);
  }
};
static_assert(sizeof(DocumentHeader) == 128 && offsetof(DocumentHeader, header_crc) == 124);

// Byte positions in the file.
struct DocumentLayout {
  explicit DocumentLayout(const DocumentHeader& h) {
    ids = static_cast<int64_t>(sizeof(DocumentHeader));
    segment_lengths = ids + Align8(h.tokens * h.id_bytes);
    segment_begins = segment_lengths + Align8(h.segments * 2);
    token_begins = segment_begins + (h.documents + 1) * 8;
    continues_word = token_begins + (h.documents + 1) * 8;
    report = continues_word + Align8(h.vocab_size);
    end = report + Align8(h.report_bytes);
  }
  int64_t ids = 0;
  int64_t segment_lengths = 0;
  int64_t segment_begins = 0;
  int64_t token_begins = 0;
  int64_t continues_word = 0;
  int64_t report = 0;
  int64_t end = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_DOCUMENT_SHARD_FORMAT_H_
