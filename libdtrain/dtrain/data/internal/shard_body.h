// shard_body.h - helpers for writing shards: checksummed, aligned sections and narrow ids.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_SHARD_BODY_H_
#define DTRAIN_DATA_INTERNAL_SHARD_BODY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/file.h"
#include "dtrain/base/status.h"
#include "dtrain/data/internal/shard_format.h"

namespace dtrain::internal {

// Writes everything after the header of a shard.
class ShardBody {
 public:
  ShardBody(AtomicFile file, int64_t vocab_size)
      : file_(std::move(file)), vocab_size_(vocab_size) {}

  template <typename Header>
  Status WriteHeader(const Header& header) {
    return file_.Write(std::as_bytes(std::span(&header, 1)));
  }
  // Overwrites the header with one that has the checksums, then renames the file.
  template <typename Header>
  Status Commit(Header header, AtomicFile::Durability durability) {
    Seal(crc_, header);
    DT_RETURN_IF_ERROR(file_.WriteAtStart(std::as_bytes(std::span(&header, 1))));
    return file_.Commit(durability);
  }

  template <typename T>
  Status Write(std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    crc_ = Crc32c(bytes, crc_);
    in_section_ += bytes.size();
    return file_.Write(bytes);
  }
  Status WriteIds(std::span<const int32_t> ids) {
    for (const int32_t id : ids) {
      DT_CHECK(id >= 0 && id < vocab_size_)
          << "id " << id << " is outside the vocabulary of " << vocab_size_;
    }
    if (IdBytes(vocab_size_) == 4) return Write(ids);
    narrow_.assign(ids.begin(), ids.end());
    return Write(std::span<const uint16_t>(narrow_));
  }
  Status EndSection() {
    const char zeros[8] = {};
    DT_RETURN_IF_ERROR(Write(std::span<const char>(zeros).first((8 - in_section_ % 8) % 8)));
    in_section_ = 0;
    return OkStatus();
  }
  template <typename T>
  Status WriteSection(std::span<const T> values) {
    DT_RETURN_IF_ERROR(Write(values));
    return EndSection();
  }
  // Writes the sum before each item, and the total: uint64[items + 1].
  template <typename T>
  Status WriteOffsets(std::span<const T> lengths) {
    uint64_t offset = 0;
    DT_RETURN_IF_ERROR(Write(std::span<const uint64_t>(&offset, 1)));
    for (const T length : lengths) {
      offset += static_cast<uint64_t>(length);
      DT_RETURN_IF_ERROR(Write(std::span<const uint64_t>(&offset, 1)));
    }
    return EndSection();
  }

 private:
  AtomicFile file_;
  int64_t vocab_size_;
  uint32_t crc_ = 0;       // of everything except the header
  size_t in_section_ = 0;  // number of bytes in the current section
  std::vector<uint16_t> narrow_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_SHARD_BODY_H_
