// file_lock.cc - flock(), also when the locked file is removed while others wait for it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "dtrain/base/file.h"

namespace dtrain {
namespace {

// True if `path` still names the file open as `descriptor`. The previous holder may have removed
// it, and another process may have locked a new file of that name.
bool IsSameFile(const std::string& path, int descriptor) {
  struct stat here {};
  struct stat there {};
  return ::fstat(descriptor, &here) == 0 && ::stat(path.c_str(), &there) == 0 &&
         here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

constexpr int kNoLocks = -1;  // the file system has no locks
constexpr int kHeld = -2;     // another process or object holds it

// Returns a descriptor that holds the lock, or one of the two values above. `flags` are the flags
// of flock().
StatusOr<int> LockFile(const std::string& path, int flags) {
  for (;;) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) return FileError(path, "create", errno);
    const int error = ::flock(descriptor, flags) == 0 ? 0 : errno;
    if (error == 0 && IsSameFile(path, descriptor)) return descriptor;
    ::close(descriptor);
    if (error == EWOULDBLOCK) return kHeld;
    if (error != 0 && error != EINTR) return kNoLocks;
  }
}

}  // namespace

StatusOr<std::optional<FileLock>> FileLock::Try(const std::string& path) {
  DT_ASSIGN_OR_RETURN(const int descriptor, LockFile(path, LOCK_EX | LOCK_NB));
  if (descriptor == kHeld) return std::optional<FileLock>();
  return FileLock(path, descriptor);
}

StatusOr<FileLock> FileLock::Wait(const std::string& path) {
  DT_ASSIGN_OR_RETURN(const int descriptor, LockFile(path, LOCK_EX));
  return FileLock(path, descriptor);
}

void FileLock::RemoveFile() {
  if (descriptor_ < 0) return;
  ::unlink(path_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace dtrain
