// append_file.cc - buffers records and appends them to the file.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/internal/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "dtrain/base/file.h"

namespace dtrain::internal {

StatusOr<AppendFile> AppendFile::Open(const std::string& path, Mode mode, int* error) {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  const int descriptor = ::open(path.c_str(), mode == Mode::kCreate ? flags | O_EXCL : flags, 0666);
  if (descriptor < 0) {
    const int open_error = errno;
    if (error != nullptr) *error = open_error;
    return FileError(path, "create", open_error);
  }
  return AppendFile(path, descriptor);
}

AppendFile::AppendFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      buffer_(std::exchange(other.buffer_, {})),
      since_flush_(other.since_flush_) {}

AppendFile::~AppendFile() {
  if (descriptor_ < 0) return;
  static_cast<void>(Flush());
  ::close(descriptor_);
}

Status AppendFile::Append(std::string_view record, double flush_seconds) {
  buffer_ += record;
  return since_flush_.Seconds() >= flush_seconds ? Flush() : OkStatus();
}

Status AppendFile::Flush() {
  since_flush_.Restart();
  size_t done = 0;
  int error = 0;
  while (done < buffer_.size() && error == 0) {
    const ssize_t written = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  // The unwritten rest waits for the next flush, so that no record is cut in the middle.
  buffer_.erase(0, done);
  return error == 0 ? OkStatus() : FileError(path_, "write", error);
}

}  // namespace dtrain::internal
