// output_folder.cc - looks for checkpoints in and above a folder, and for files with two names.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/output_folder.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_format.h"
#include "dtrain/runs/checkpoint_directory.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

StatusOr<fs::path> Resolve(const std::string& path) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) return StorageError(absl::StrFormat("%s: %s", path, error.message()));
  return place.has_filename() ? place : place.parent_path();
}

bool Has(const fs::path& folder, const char* name) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(folder / name, ignored));
}

// True if a resolved path is a checkpoint, or is inside of one or of a run's ckpt/.
bool LiesInCheckpoint(const fs::path& place) {
  for (fs::path at = place;; at = at.parent_path()) {
    if (Has(at, "MANIFEST") && Has(at, "COMPLETE")) return true;
    if (at.filename() == "ckpt" && (Has(at, "last") || !ListCheckpoints(at).empty())) return true;
    if (at == at.parent_path()) return false;
  }
}

}  // namespace

Status CheckIsNoCheckpoint(const std::string& folder) {
  DT_ASSIGN_OR_RETURN(const fs::path place, Resolve(folder));
  if (!Has(place, "ckpt") && !LiesInCheckpoint(place)) return OkStatus();
  return UsageError(folder + ": is a checkpoint or a run; name another output folder");
}

Status CheckIsInNoCheckpoint(const std::string& name, const std::string& output) {
  std::error_code error;
  const fs::file_status status = fs::status(output, error);
  if (output == "-" || (fs::exists(status) && !fs::is_regular_file(status))) {
    return OkStatus();
  }
  DT_ASSIGN_OR_RETURN(const fs::path place, Resolve(output));
  if (!LiesInCheckpoint(place)) return OkStatus();
  return UsageError(absl::StrFormat(
      "%s: %s is inside of a checkpoint or a run's ckpt/; name another file", name, output));
}

Status CheckIsNotRead(const std::string& name, const std::string& output,
                      std::span<const std::string> inputs) {
  std::error_code error;
  if (!fs::is_regular_file(output, error)) return OkStatus();
  for (const std::string& input : inputs) {
    if (!fs::equivalent(output, input == "-" ? "/dev/stdin" : input, error) || error) continue;
    return UsageError(absl::StrFormat(
        "%s: %s is also an input and would be overwritten; name another file", name, output));
  }
  return OkStatus();
}

}  // namespace dtrain
