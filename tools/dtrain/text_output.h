// text_output.h - where a command's text goes: standard output, or a file that appears when whole.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_DTRAIN_TEXT_OUTPUT_H_
#define DTRAIN_TOOLS_DTRAIN_TEXT_OUTPUT_H_

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain {

// UsageError where writing to --output=`path`, or to the file that becomes it, would damage one of
// the files that are read, or a checkpoint.
Status CheckTextOutput(const std::string& path, std::span<const std::string> inputs);

// Errors are StorageErrors with path and reason.
class TextOutput {
 public:
  // "-" is standard output. A file is written as PATH.partial and renamed by Close(), so that an
  // error leaves what was there before; without Close() the partial file goes. What is there and is
  // no plain file (a device, a pipe) is written to as it is, never replaced.
  static StatusOr<TextOutput> Open(const std::string& path);

  Status Write(std::string_view text);  // and flushes
  Status Close();

 private:
  // Of what was not closed.
  struct CloseFile {
    void operator()(std::FILE* file) const {
      if (file == stdout) return;
      std::fclose(file);
      if (!partial.empty()) std::remove(partial.c_str());
    }
    std::string partial;  // empty: written in place
  };
  explicit TextOutput(std::string path) : path_(std::move(path)) {}
  Status Failed() const;

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_DTRAIN_TEXT_OUTPUT_H_
