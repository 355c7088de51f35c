// shard_header.h - what readers of shards check first: magic, version, checksum, vocabulary.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_SHARD_HEADER_H_
#define DTRAIN_DATA_INTERNAL_SHARD_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/status.h"

namespace dtrain::internal {

// `kind` is "token shard" and the like.
inline absl::Status DamagedShard(const std::string& path, std::string_view kind,
                                 std::string_view why) {
  return DataError(absl::StrFormat("%s: damaged %s (%s); prepare the data again", path,
                                   ToAbsl(kind), ToAbsl(why)));
}

inline absl::StatusOr<MappedFile> MapShard(const std::string& path) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (file.ok()) return file;
  return DataError(std::string(MessageOf(file.status())) + "; prepare the data first");
}

// Fills `header` from the start of the file. It has magic, version, header_crc and ComputeCrc().
template <typename Header>
absl::Status ReadShardHeader(const std::string& path, std::string_view kind,
                             std::span<const std::byte> bytes, const char (&magic)[8],
                             uint32_t version, Header& header) {
  const bool is_whole = bytes.size() >= sizeof(header);
  if (is_whole) std::memcpy(&header, bytes.data(), sizeof(header));
  if (!is_whole || std::memcmp(header.magic, magic, sizeof(magic)) != 0) {
    return DataError(absl::StrFormat("%s: is not a %s; give a file that the preparation wrote",
                                     path, ToAbsl(kind)));
  }
  if (header.version != version) {
    return DataError(
        absl::StrFormat("%s: %s of version %d, this program reads version %d; prepare the data "
                        "again",
                        path, ToAbsl(kind), header.version, version));
  }
  if (header.ComputeCrc() != header.header_crc) {
    return DamagedShard(path, kind, "checksum of the header");
  }
  return absl::OkStatus();
}

inline absl::Status CheckShardVocabulary(const std::string& path, uint64_t made_with,
                                         std::optional<uint64_t> wanted) {
  if (!wanted || *wanted == made_with) return absl::OkStatus();
  return DataError(absl::StrFormat(
      "%s: made with another vocabulary (hash %016x, this run's is %016x); prepare the data with "
      "the vocabulary of this run, or give the run the vocabulary beside the data",
      path, made_with, *wanted));
}

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_SHARD_HEADER_H_
