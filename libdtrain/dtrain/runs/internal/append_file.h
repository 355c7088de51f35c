// append_file.h - a file that grows by whole records and is written about once a second.
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
  // kCreate fails with EEXIST, which is returned in `error`, if the file exists.
  enum class Mode { kCreate, kAppend };
  static StatusOr<AppendFile> Open(const std::string& path, Mode mode, int* error = nullptr);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;
  // Writes the remaining records. Errors are lost here; call Flush() to see them.
  ~AppendFile();

  // Adds a record. Writes all records to the file if the last write was at least `flush_seconds`
  // ago.
  Status Append(std::string_view record, double flush_seconds);
  // Passes all records to the system. They survive a crash of this process, but not of the machine.
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
