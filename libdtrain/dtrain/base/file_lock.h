// file_lock.h - a lock on a file, which keeps two processes from writing to the same place.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_FILE_LOCK_H_
#define DTRAIN_BASE_FILE_LOCK_H_

#include <optional>
#include <string>
#include <utility>

#include "dtrain/base/status.h"

namespace dtrain {

// Held as long as this object lives, and given back by the system when the process dies. Advisory:
// it keeps out those who ask for it. Where a file system has no locks every one is granted. Errors
// are StorageErrors that name the path: the file cannot be made.
class FileLock {
 public:
  // Nothing when somebody else holds it, in this process or another. Makes the file.
  static StatusOr<std::optional<FileLock>> Try(const std::string& path);
  // Waits until it is free.
  static StatusOr<FileLock> Wait(const std::string& path);

  FileLock(FileLock&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  // False where the file system has no locks.
  bool is_held() const { return descriptor_ >= 0; }

  // Gives the lock back without a file left behind; whoever waits for it makes a new one.
  void RemoveFile();

 private:
  FileLock(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;  // -1: the file system has no locks
};

}  // namespace dtrain

#endif  // DTRAIN_BASE_FILE_LOCK_H_
