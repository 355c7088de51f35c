// file_lock.h - a lock on a file, which keeps two processes from writing to the same place.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_FILE_LOCK_H_
#define DTRAIN_BASE_FILE_LOCK_H_

#include <optional>
#include <string>
#include <utility>

#include "dtrain/base/status.h"

namespace dtrain {

// Holds an advisory lock as long as this object lives. The system releases the lock if the process
// dies. It only keeps out processes that ask for the same lock. On a file system without locks,
// every request is granted. If the lock file cannot be created, the error is a StorageError that
// names the path.
class FileLock {
 public:
  // Tries to take the lock and creates the file. Returns nullopt if this or another process already
  // holds it.
  static StatusOr<std::optional<FileLock>> Try(const std::string& path);
  // Like Try(), but waits until the lock is free.
  static StatusOr<FileLock> Wait(const std::string& path);

  FileLock(FileLock&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  // False if the file system has no locks, so that nothing is protected.
  bool is_held() const { return descriptor_ >= 0; }

  // Removes the lock file and releases the lock. Processes that wait for it create a new file.
  void RemoveFile();

 private:
  FileLock(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;  // -1 if the file system has no locks
};

}  // namespace dtrain

#endif  // DTRAIN_BASE_FILE_LOCK_H_
