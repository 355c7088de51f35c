// text_output.cc - writes text and notices when the disk does not take it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/dtrain/text_output.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/runs/output_folder.h"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

// The file that becomes `path`, links followed; "" for what is written in place.
std::string PartialOf(std::string& path) {
  if (path == "-") return "";
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) return "";
  // Behind a link: the link stays.
  const fs::path target = fs::weakly_canonical(path, error);
  if (!error) path = target.string();
  return path + ".partial";
}

}  // namespace

Status CheckTextOutput(const std::string& path, std::span<const std::string> inputs) {
  DT_RETURN_IF_ERROR(CheckIsNotRead("--output", path, inputs));
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return UsageError("--output: " + path + " is a folder; name a file in it");
  }
  std::string target = path;
  const std::string partial = PartialOf(target);
  if (!partial.empty()) DT_RETURN_IF_ERROR(CheckIsNotRead("--output", partial, inputs));
  return CheckIsInNoCheckpoint("--output", path);
}

StatusOr<TextOutput> TextOutput::Open(const std::string& path) {
  for (const char* const packed : {".gz", ".zst"}) {
    if (absl::EndsWith(path, packed)) {
      return UsageError(
          absl::StrCat(path, ": text is written as it is, not packed: give it a name without ",
                       packed, ", or write to - and let gzip or zstd pack it"));
    }
  }
  TextOutput output(path);
  if (path == "-") {
    output.path_ = "standard output";
    output.file_.reset(stdout);
    return output;
  }
  std::string& partial = output.file_.get_deleter().partial;
  partial = PartialOf(output.path_);
  output.file_.reset(std::fopen((partial.empty() ? output.path_ : partial).c_str(), "w"));
  if (output.file_ == nullptr) return output.Failed();
  return output;
}

Status TextOutput::Failed() const {
  if (errno == EISDIR) return UsageError(path_ + ": is a folder; name a file in it");
  return StorageError(absl::StrFormat("%s: cannot be written: %s", path_, std::strerror(errno)));
}

Status TextOutput::Write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() ||
      std::fflush(file_.get()) != 0) {
    return Failed();
  }
  return OkStatus();
}

Status TextOutput::Close() {
  if (file_.get() == stdout) return OkStatus();
  const char* const partial = file_.get_deleter().partial.c_str();
  const bool in_place = file_.get_deleter().partial.empty();
  const bool closed = std::fclose(file_.release()) == 0;
  if (closed && (in_place || std::rename(partial, path_.c_str()) == 0)) return OkStatus();
  Status failed = Failed();
  if (!in_place) std::remove(partial);
  return failed;
}

}  // namespace dtrain
