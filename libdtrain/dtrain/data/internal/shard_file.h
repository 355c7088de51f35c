// shard_file.h - what readers of shards share: the mapped file, its checks, its sections in order.
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

// Sections are taken in the order they lie in, whether they are there or not; then Check() says.
class ShardFile {
 public:
  // Maps the file and fills `header` from its start. DataError: it is missing, not of this kind, of
  // another version, or its header is damaged.
  template <typename Header>
  static StatusOr<ShardFile> Open(const std::string& path, const ShardKind& kind, Header& header) {
    return OpenBytes(path, kind, std::as_writable_bytes(std::span<Header, 1>(&header, 1)));
  }

  const std::string& path() const { return path_; }

  // `items` times `each` values. Empty where a file of this size cannot hold them.
  template <typename T>
  std::span<const T> Take(int64_t items, int64_t each = 1) {
    const auto position = Advance(items, each, static_cast<int64_t>(sizeof(T)));
    if (position < 0) return {};
    return {reinterpret_cast<const T*>(file_.bytes().data() + position),
            static_cast<size_t>(items * each)};
  }
  // As ShardBody::WriteOffsets() writes them: one more than items.
  std::span<const uint64_t> TakeOffsets(int64_t items);
  TokenView TakeIds(int64_t count);

  // That the sections taken are all of the file, and what the options ask for. DataError.
  Status Check(const ShardOpenOptions& options, uint32_t body_crc) const;
  Status Damaged(std::string_view why) const;

 private:
  ShardFile(std::string path, const ShardKind& kind, MappedFile file)
      : path_(std::move(path)), kind_(kind), file_(std::move(file)) {}
  static StatusOr<ShardFile> OpenBytes(const std::string& path, const ShardKind& kind,
                                       std::span<std::byte, kShardHeaderBytes> header);
  Status CheckHeader(std::span<const std::byte, kShardHeaderBytes> header);
  // The position of the section, or -1.
  int64_t Advance(int64_t items, int64_t each, int64_t bytes_each);
  int64_t size() const { return static_cast<int64_t>(file_.bytes().size()); }

  std::string path_;
  ShardKind kind_;
  MappedFile file_;
  ShardStart start_;
  int64_t end_ = kShardHeaderBytes;  // of the sections so far, perhaps beyond the file
  bool counts_fit_ = true;           // each section alone fits the file
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_SHARD_FILE_H_
