// file_content.cc - reads the file once, a megabyte at a time.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/internal/file_content.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/data/internal/byte_source.h"
#include "dtrain/data/internal/hash.h"

namespace dtrain::internal {

absl::StatusOr<std::string> DescribeContent(const std::string& path) {
  // Gives the messages for what is missing, a folder or unreadable.
  DT_RETURN_IF_ERROR(OpenByteSource(path).status());
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return DataError(path +
                     ": is not a regular file; the preparation reads its inputs more than "
                     "once, so write the text to a file first");
  }
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

}  // namespace dtrain::internal
