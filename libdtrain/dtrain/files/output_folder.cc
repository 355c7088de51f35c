// output_folder.cc - looks for checkpoints in and above a folder, and for files by two names.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/files/output_folder.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_format.h"
#include "dtrain/files/checkpoint_directory.h"

namespace dtrain {

namespace fs = std::filesystem;

absl::Status CheckIsNoCheckpoint(const std::string& folder) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(fs::absolute(folder, error), error);
  if (error) return StorageError(absl::StrFormat("%s: %s", folder, error.message()));
  if (!place.has_filename()) place = place.parent_path();
  const auto has = [](const fs::path& at, const char* name) {
    std::error_code ignored;
    return fs::exists(fs::symlink_status(at / name, ignored));
  };
  bool taken = has(place, "ckpt");
  for (fs::path at = place; !taken; at = at.parent_path()) {
    taken = (has(at, "MANIFEST") && has(at, "COMPLETE")) ||
            (at.filename() == "ckpt" && (has(at, "last") || !ListCheckpoints(at).empty()));
    if (at == at.parent_path()) break;
  }
  if (!taken) return absl::OkStatus();
  return UsageError(folder + ": is a checkpoint or a run; name another output folder");
}

absl::Status CheckIsNotRead(const std::string& name, const std::string& output,
                            std::span<const std::string> inputs) {
  std::error_code error;
  if (!fs::is_regular_file(output, error)) return absl::OkStatus();
  for (const std::string& input : inputs) {
    if (!fs::equivalent(output, input == "-" ? "/dev/stdin" : input, error) || error) continue;
    return UsageError(absl::StrFormat(
        "%s: %s is the file that is read, and would be gone; name another", name, output));
  }
  return absl::OkStatus();
}

}  // namespace dtrain
