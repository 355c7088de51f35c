// shard_file.cc - positions never overflow, because a count that does not fit the file is ignored.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/internal/shard_file.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain::internal {

StatusOr<ShardFile> ShardFile::OpenBytes(const std::string& path, const ShardKind& kind,
                                         std::span<std::byte, kShardHeaderBytes> header) {
  StatusOr<MappedFile> mapped = MappedFile::Open(path);
  if (!mapped.ok()) {
    return DataError(std::string(mapped.status().message()) + "; prepare the data first");
  }
  ShardFile file(path, kind, *std::move(mapped));
  const std::span<const std::byte> bytes = file.file_.bytes();
  std::copy_n(bytes.begin(), std::min(bytes.size(), header.size()), header.begin());
  DT_RETURN_IF_ERROR(file.CheckHeader(header));
  return file;
}

Status ShardFile::CheckHeader(std::span<const std::byte, kShardHeaderBytes> header) {
  std::memcpy(&start_, header.data(), sizeof(start_));
  if (size() < end_ || std::string_view(start_.magic, sizeof(start_.magic)) != kind_.magic) {
    return DataError(absl::StrFormat("%s: is not a %s; give a file that the preparation wrote",
                                     path_, ToAbsl(kind_.name)));
  }
  if (start_.version != kind_.version) {
    return DataError(
        absl::StrFormat("%s: %s of version %d, this program reads version %d; prepare the data "
                        "again",
                        path_, ToAbsl(kind_.name), start_.version, kind_.version));
  }
  const uint32_t crc = HeaderCrc(header);
  if (std::memcmp(&crc, header.last<sizeof(crc)>().data(), sizeof(crc)) != 0) {
    return Damaged("checksum of the header");
  }
  const bool ids_are_known = start_.id_bytes == 2 || start_.id_bytes == 4;
  return ids_are_known && start_.vocab_size > 0 ? OkStatus() : Damaged("vocabulary of the header");
}

int64_t ShardFile::Advance(int64_t items, int64_t each, int64_t bytes_each) {
  if (items < 0 || each < 0 || (each > 0 && items > size() / bytes_each / each)) {
    counts_fit_ = false;
    return -1;
  }
  const int64_t position = end_;
  end_ += Align8(items * each * bytes_each);
  return end_ <= size() ? position : -1;
}

std::span<const uint64_t> ShardFile::TakeOffsets(int64_t items) {
  const bool fits = items >= 0 && items < size();
  return Take<uint64_t>(fits ? items + 1 : -1);
}

TokenView ShardFile::TakeIds(int64_t count) {
  if (start_.id_bytes == 4) return {Take<uint32_t>(count).data(), count, true};
  return {Take<uint16_t>(count).data(), count, false};
}

Status ShardFile::Check(const ShardOpenOptions& options, uint32_t body_crc) const {
  if (!counts_fit_) return Damaged("counts of the header");
  if (size() != end_) {
    return Damaged(absl::StrFormat("%d bytes instead of the %d in the header", size(), end_));
  }
  if (options.vocab_hash && *options.vocab_hash != start_.vocab_hash) {
    return DataError(absl::StrFormat(
        "%s: made with another vocabulary (hash %016x, this run's is %016x); prepare the data with "
        "the vocabulary of this run, or give the run the vocabulary in the data's folder",
        path_, start_.vocab_hash, *options.vocab_hash));
  }
  if (options.verify_checksum && Crc32c(file_.bytes().subspan(kShardHeaderBytes)) != body_crc) {
    return Damaged("checksum of the content");
  }
  return OkStatus();
}

Status ShardFile::Damaged(std::string_view why) const {
  return DataError(absl::StrFormat("%s: damaged %s (%s); prepare the data again", path_,
                                   ToAbsl(kind_.name), ToAbsl(why)));
}

}  // namespace dtrain::internal
