// text_output.cc - writes text and notices when the disk does not take it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/dtrain/text_output.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"

namespace dtrain {

absl::StatusOr<TextOutput> TextOutput::Open(const std::string& path) {
  if (path == "-") return TextOutput("standard output", stdout);
  TextOutput output(path, std::fopen((path + ".partial").c_str(), "w"));
  if (output.file_ == nullptr) return output.Failed();
  return output;
}

absl::Status TextOutput::Failed() const {
  return StorageError(absl::StrFormat("%s: cannot be written: %s", path_, std::strerror(errno)));
}

absl::Status TextOutput::Write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() ||
      std::fflush(file_.get()) != 0) {
    return Failed();
  }
  return absl::OkStatus();
}

absl::Status TextOutput::Close() {
  if (file_.get() == stdout) return absl::OkStatus();
  if (std::fclose(file_.release()) != 0) return Failed();
  if (std::rename((path_ + ".partial").c_str(), path_.c_str()) != 0) return Failed();
  return absl::OkStatus();
}

}  // namespace dtrain
