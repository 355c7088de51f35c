// append_file.h - a file that grows by whole records and reaches the disk about once a second.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_RUNS_INTERNAL_APPEND_FILE_H_
#define DTRAIN_RUNS_INTERNAL_APPEND_FILE_H_

#include <string>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/base/timer.h"

namespace dtrain::internal {

class AppendFile {
 public:
  // kCreate fails with EEXIST (see the errno argument) where there is such a file.
  enum class Mode { kCreate, kAppend };
  static StatusOr<AppendFile> Open(const std::string& path, Mode mode, int* error = nullptr);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;
  // Writes what is left; an error then is lost, call Flush() to see it.
  ~AppendFile();

  // Adds a record; writes all records out if the last write is `flush_seconds` ago.
  Status Append(std::string_view record, double flush_seconds);
  // Hands all records to the system; they survive this process, not the machine.
  Status Flush();

  const std::string& path() const { return path_; }

 private:
  AppendFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_;
  std::string buffer_;
  Timer since_flush_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_RUNS_INTERNAL_APPEND_FILE_H_
