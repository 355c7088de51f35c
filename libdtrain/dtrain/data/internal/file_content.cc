// file_content.cc - reads the file once, a megabyte at a time.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/internal/file_content.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/data/internal/byte_source.h"
#include "dtrain/data/internal/hash.h"

namespace dtrain::internal {

StatusOr<std::string> InputFiles::DescribeContent(const std::string& path) {
  // Returns the errors for missing, unreadable files and folders.
  DT_RETURN_IF_ERROR(OpenByteSource(path).status());
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return DataError(path +
                     ": is not a regular file; the preparation reads its inputs more than "
                     "once, so write the text to a file first");
  }
  DT_ASSIGN_OR_RETURN(State state, Look(path));  // before the first byte is read
  states_.push_back(std::move(state));
  std::ifstream in(path, std::ios::binary);
  std::vector<char> buffer(1 << 20);
  uint64_t hash = 0;
  int64_t bytes = 0;
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto n = static_cast<size_t>(in.gcount());
    if (n > 0) hash = MixHash(hash, StableHash({buffer.data(), n}));
    bytes += static_cast<int64_t>(n);
  }
  if (in.bad()) return DataError(path + ": cannot be read");
  return absl::StrFormat("%d bytes, hash %016x", bytes, hash);
}

StatusOr<InputFiles::State> InputFiles::Look(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return DataError(path + ": cannot be read: " + std::strerror(errno));
  }
  return State{.path = path,
               .size = info.st_size,
               .seconds = info.st_mtim.tv_sec,
               .nanoseconds = info.st_mtim.tv_nsec,
               .inode = info.st_ino};
}

Status InputFiles::CheckUnchanged() const {
  for (const State& before : states_) {
    const StatusOr<State> now = Look(before.path);
    if (now.ok() && *now == before) continue;
    return DataError(before.path +
                     ": changed while it was read; prepare again when it is complete");
  }
  return OkStatus();
}

}  // namespace dtrain::internal
