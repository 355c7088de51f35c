// fetched_file.cc - recognises such files by their first bytes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/formats/internal/fetched_file.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain::internal {

Status CheckFetched(const std::string& path, std::span<const std::byte> bytes) {
  constexpr size_t kLooked = 100;
  const std::string_view begin(reinterpret_cast<const char*>(bytes.data()),
                               std::min(bytes.size(), kLooked));
  if (begin.empty()) return StorageError(path + ": is empty; fetch it again");
  // git-lfs's docs/spec.md: the first line of a pointer begins with "version".
  if (begin.starts_with("version https://git-lfs")) {
    return StorageError(path + ": is a Git LFS pointer; run git lfs pull");
  }
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(ToAbsl(begin));
  if (absl::StartsWithIgnoreCase(text, "<!doctype") || absl::StartsWithIgnoreCase(text, "<html")) {
    return StorageError(path + ": is a web page, not weights; fetch it again");
  }
  return OkStatus();
}

}  // namespace dtrain::internal
