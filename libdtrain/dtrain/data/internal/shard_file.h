// shard_file.h - helpers for reading shards: the mapped file, its checks, its sections in order.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_SHARD_FILE_H_
#define DTRAIN_DATA_INTERNAL_SHARD_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dtrain/base/file.h"
#include "dtrain/base/status.h"
#include "dtrain/data/internal/shard_format.h"
#include "dtrain/data/shard.h"

namespace dtrain::internal {

// Take the sections in the order of the file, without checking them one by one. Then Check()
// reports whether the file was valid.
class ShardFile {
 public:
  // Maps the file and copies its start to `header`. Returns DataError if the file is missing, of
  // another kind or version, or has a damaged header.
  template <typename Header>
  static StatusOr<ShardFile> Open(const std::string& path, const ShardKind& kind, Header& header) {
    return OpenBytes(path, kind, std::as_writable_bytes(std::span<Header, 1>(&header, 1)));
  }

  const std::string& path() const { return path_; }

  // Returns `items` times `each` values; empty if a file of this size cannot hold them.
  template <typename T>
  std::span<const T> Take(int64_t items, int64_t each = 1) {
    const auto position = Advance(items, each, static_cast<int64_t>(sizeof(T)));
    if (position < 0) return {};
    return {reinterpret_cast<const T*>(file_.bytes().data() + position),
            static_cast<size_t>(items * each)};
  }
  // Returns offsets as written by ShardBody::WriteOffsets(): items + 1 values.
  std::span<const uint64_t> TakeOffsets(int64_t items);
  TokenView TakeIds(int64_t count);

  // Checks that the sections cover the whole file and that the options are met; otherwise
  // DataError.
  Status Check(const ShardOpenOptions& options, uint32_t body_crc) const;
  Status Damaged(std::string_view why) const;

 private:
  ShardFile(std::string path, const ShardKind& kind, MappedFile file)
      : path_(std::move(path)), kind_(kind), file_(std::move(file)) {}
  static StatusOr<ShardFile> OpenBytes(const std::string& path, const ShardKind& kind,
                                       std::span<std::byte, kShardHeaderBytes> header);
  Status CheckHeader(std::span<const std::byte, kShardHeaderBytes> header);
  // Returns the position of the section, or -1.
  int64_t Advance(int64_t items, int64_t each, int64_t bytes_each);
  int64_t size() const { return static_cast<int64_t>(file_.bytes().size()); }

  std::string path_;
  ShardKind kind_;
  MappedFile file_;
  ShardStart start_;
  int64_t end_ = kShardHeaderBytes;  // end of the sections taken so far; may be beyond the file
  bool counts_fit_ = true;           // true if each section alone fits the file
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_SHARD_FILE_H_
