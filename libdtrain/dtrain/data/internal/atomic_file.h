// atomic_file.h - a file that has its name only once it is complete and on the disk.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_ATOMIC_FILE_H_
#define DTRAIN_DATA_INTERNAL_ATOMIC_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain::internal {

// Buffered writer to `path`.tmp. Errors are StorageErrors with the path and the system's reason.
class BufferedAtomicFile {
 public:
  static absl::StatusOr<BufferedAtomicFile> Create(const std::string& path);
  BufferedAtomicFile(BufferedAtomicFile&& other) noexcept;
  BufferedAtomicFile& operator=(BufferedAtomicFile&& other) noexcept;
  ~BufferedAtomicFile();  // removes the file unless Commit() succeeded

  absl::Status Write(const void* data, size_t bytes);
  absl::Status Write(std::string_view text) { return Write(text.data(), text.size()); }
  // Overwrites bytes at the start of the file, already written ones.
  absl::Status WriteAtStart(const void* data, size_t bytes);
  // Flushes, syncs, renames, and syncs the folder.
  absl::Status Commit();

 private:
  BufferedAtomicFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status Flush();
  absl::Status Error(const char* what) const;

  std::string path_;
  int fd_ = -1;  // -1: committed or moved from
  std::vector<char> buffer_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_ATOMIC_FILE_H_
