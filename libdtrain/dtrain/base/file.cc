// file.cc - atomic writes: temporary file, fsync, rename, fsync of the folder.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_format.h"
#include "dtrain/base/bus_error.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// A file descriptor that is closed when it leaves the scope.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int value() const { return value_; }

 private:
  int value_;
};

std::string_view Advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space and run the same command again";
    case EFBIG:
      return "; raise the limit on file sizes (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; check the permissions";
    case ENOENT:
    case ENOTDIR:
      return "; check the path";
    default:
      return "";
  }
}

// A new name in the folder of `path`. It is random because process ids are not unique on disks that
// several machines or containers share.
std::string TemporaryName(const std::string& path) {
  const std::filesystem::path whole(path);
  uint64_t random = 0;
  if (::getentropy(&random, sizeof(random)) != 0) random = static_cast<uint64_t>(::getpid());
  return (whole.parent_path() / absl::StrFormat(".tmp-%s-%016x", whole.filename().string(), random))
      .string();
}

// Opens a file for reading. A pipe, a device or a folder in its place is an error at once: opening
// a pipe would wait for a writer, and a device may have no end.
StatusOr<Descriptor> OpenRegularFile(const std::string& path, struct stat& info) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.value() < 0) return FileError(path, "open", errno);
  if (::fstat(file.value(), &info) != 0) return FileError(path, "open", errno);
  if (!S_ISREG(info.st_mode)) return StorageError(path + ": not a regular file; check the path");
  return file;
}

// Follows symbolic links to the final target, which need not exist yet.
std::string BehindLinks(const std::string& path) {
  std::filesystem::path target = path;
  std::error_code error;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(target, error); ++links) {
    const std::filesystem::path next = std::filesystem::read_symlink(target, error);
    if (error) break;
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  return target.string();
}

}  // namespace

Status FileError(const std::string& path, std::string_view action, int error) {
  if (error == EISDIR) {
    return UsageError(
        absl::StrFormat("%s: cannot %s: is a folder; name a file in it", path, ToAbsl(action)));
  }
  return StorageError(absl::StrFormat("%s: cannot %s: %s%s", path, ToAbsl(action),
                                      std::generic_category().message(error),
                                      ToAbsl(Advice(error))));
}

StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  struct stat info = {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return FileError(path, "create", EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return FileError(path, "open", errno);
    return AtomicFile(path, /*temporary=*/"", descriptor);
  }
  const std::string target = BehindLinks(path);
  const std::string temporary = TemporaryName(target);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return FileError(path, "create", errno);
  return AtomicFile(target, temporary, descriptor);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      buffer_(std::move(other.buffer_)),
      crc_(other.crc_),
      size_(other.size_) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::Write(std::span<const std::byte> data) {
  size_ += static_cast<int64_t>(data.size());
  while (!data.empty()) {
    // The checksum of a piece is computed while the piece is in the cache.
    const auto piece = data.first(std::min(data.size(), kBufferBytes));
    crc_ = Crc32c(piece, crc_);
    if (buffer_.size() + piece.size() > kBufferBytes) DT_RETURN_IF_ERROR(Flush());
    if (piece.size() == kBufferBytes) {
      DT_RETURN_IF_ERROR(WriteThrough(piece));
    } else {
      buffer_.insert(buffer_.end(), piece.begin(), piece.end());
    }
    data = data.subspan(piece.size());
  }
  return OkStatus();
}

Status AtomicFile::WriteThrough(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t written = ::write(descriptor_, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(path_, "write", errno);
    data = data.subspan(static_cast<size_t>(written));
  }
  return OkStatus();
}

Status AtomicFile::Flush() {
  DT_RETURN_IF_ERROR(WriteThrough(buffer_));
  buffer_.clear();
  return OkStatus();
}

Status AtomicFile::WriteAtStart(std::span<const std::byte> data) {
  DT_RETURN_IF_ERROR(Flush());
  const ssize_t written = ::pwrite(descriptor_, data.data(), data.size(), 0);
  if (written == static_cast<ssize_t>(data.size())) return OkStatus();
  return FileError(path_, "write", written < 0 ? errno : EIO);
}

Status AtomicFile::Commit(Durability durability) {
  DT_RETURN_IF_ERROR(Flush());
  if (temporary_.empty()) {  // a device or pipe: there is no temporary file
    ::close(std::exchange(descriptor_, -1));
    return OkStatus();
  }
  const bool sync = durability == Durability::kDurable;
  if (sync && ::fsync(descriptor_) != 0) return FileError(path_, "write", errno);
  // The destructor removes the temporary file unless the rename succeeds.
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return FileError(path_, "create", errno);
  ::close(std::exchange(descriptor_, -1));
  return sync ? SyncDirectory(ParentOf(path_)) : OkStatus();
}

Status WriteFileAtomically(const std::string& path, std::string_view content) {
  DT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  DT_RETURN_IF_ERROR(file.Write(content));
  return file.Commit();
}

Status WriteStdout(std::string_view text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return OkStatus();
  if (errno == EPIPE) return OkStatus();
  return StorageError(
      absl::StrFormat("standard output cannot be written: %s",
                      errno != 0 ? std::strerror(errno) : "part of the output was lost"));
}

StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t max_bytes) {
  struct stat info = {};
  DT_ASSIGN_OR_RETURN(const Descriptor file, OpenRegularFile(path, info));
  const auto too_long = [&] {
    return StorageError(
        absl::StrFormat("%s: is longer than %d MiB; is it the right file?", path, max_bytes >> 20));
  };
  if (info.st_size > max_bytes) return too_long();
  std::string content;
  for (;;) {
    const size_t start = content.size();
    if (static_cast<int64_t>(start) > max_bytes) return too_long();
    constexpr size_t kPiece = size_t{1} << 16;
    content.resize(start + kPiece);
    const ssize_t got = ::read(file.value(), content.data() + start, kPiece);
    if (got < 0 && errno != EINTR) return FileError(path, "read", errno);
    content.resize(start + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return content;
  }
}

void MappedFile::Unmap::operator()(const std::byte* data) const {
  internal::ForgetMapping(data);
  ::munmap(const_cast<std::byte*>(data), size);
}

StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  struct stat info = {};
  DT_ASSIGN_OR_RETURN(const Descriptor file, OpenRegularFile(path, info));
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return MappedFile({nullptr, Unmap{}});
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (data == MAP_FAILED) return FileError(path, "map", errno);
  internal::RememberMapping(data, size, path);
  return MappedFile({static_cast<const std::byte*>(data), Unmap{size}});
}

Status SyncDirectory(const std::string& path) {
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.value() < 0) return FileError(path, "open", errno);
  // Some file systems cannot sync folders and return EINVAL; their renames are durable enough.
  if (::fsync(directory.value()) != 0 && errno != EINVAL) return FileError(path, "sync", errno);
  return OkStatus();
}

Status MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return FileError(path, "create the folder", error.value());
  return OkStatus();
}

Status ReplaceLink(const std::string& target, const std::string& link) {
  const std::string temporary = TemporaryName(link);
  if (::symlink(target.c_str(), temporary.c_str()) != 0) {
    const bool has_links = errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS;
    return has_links ? FileError(link, "link", errno) : WriteFileAtomically(link, target);
  }
  if (::rename(temporary.c_str(), link.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return FileError(link, "link", error);
  }
  return SyncDirectory(ParentOf(link));
}

std::string LinkTarget(const std::string& link) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(link, error);
  if (!error) return target.string();
  if (!std::filesystem::is_regular_file(link, error)) return "";
  return ReadWholeFile(link).value_or("");
}

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace dtrain
