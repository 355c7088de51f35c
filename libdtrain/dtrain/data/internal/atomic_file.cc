// atomic_file.cc - write, fsync, rename, fsync of the folder.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/internal/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace dtrain::internal {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

}  // namespace

absl::StatusOr<BufferedAtomicFile> BufferedAtomicFile::Create(const std::string& path) {
  const std::string temporary = path + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  BufferedAtomicFile file(path, fd);
  if (fd < 0) return file.Error("cannot be created");
  file.buffer_.reserve(kBufferBytes);
  return file;
}

BufferedAtomicFile::BufferedAtomicFile(BufferedAtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)) {}

BufferedAtomicFile& BufferedAtomicFile::operator=(BufferedAtomicFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

BufferedAtomicFile::~BufferedAtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink((path_ + ".tmp").c_str());
}

absl::Status BufferedAtomicFile::Error(const char* what) const {
  return StorageError(path_ + ".tmp: " + what + ": " + std::strerror(errno));
}

absl::Status BufferedAtomicFile::Write(const void* data, size_t bytes) {
  const auto* p = static_cast<const char*>(data);
  buffer_.insert(buffer_.end(), p, p + bytes);
  return buffer_.size() >= kBufferBytes ? Flush() : absl::OkStatus();
}

absl::Status BufferedAtomicFile::Flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t n = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error("cannot be written");
    done += static_cast<size_t>(n);
  }
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status BufferedAtomicFile::WriteAtStart(const void* data, size_t bytes) {
  DT_RETURN_IF_ERROR(Flush());
  const ssize_t n = ::pwrite(fd_, data, bytes, 0);
  return n == static_cast<ssize_t>(bytes) ? absl::OkStatus() : Error("cannot be written");
}

absl::Status BufferedAtomicFile::Commit() {
  DT_RETURN_IF_ERROR(Flush());
  if (::fsync(fd_) != 0) return Error("cannot be synced");
  if (std::rename((path_ + ".tmp").c_str(), path_.c_str()) != 0) return Error("cannot be renamed");
  ::close(std::exchange(fd_, -1));
  // The name is on the disk only when the folder is.
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  const int folder_fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (folder_fd >= 0) {
    ::fsync(folder_fd);
    ::close(folder_fd);
  }
  return absl::OkStatus();
}

}  // namespace dtrain::internal
