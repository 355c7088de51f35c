// file.h - files read whole or mapped, and written all or nothing.
// SPDX-License-Identifier: Apache-2.0
//
// All errors are StorageErrors that name the path and the system's reason.
#ifndef DTRAIN_BASE_FILE_H_
#define DTRAIN_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

// "PATH: cannot ACTION: No such file or directory", from errno.
Status FileError(const std::string& path, std::string_view action, int error);

// A file being written. Unless Commit() succeeds nothing appears at `path`: until then it is
// .tmp-NAME-RANDOM in the same folder. Small writes are gathered. A link stays, what it points to
// is written; a device or a pipe is written to as it is, never replaced.
class AtomicFile {
 public:
  static StatusOr<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  // Removes the temporary file of a write that was not committed.
  ~AtomicFile();

  Status Write(std::span<const std::byte> data);
  Status Write(std::string_view data) { return Write(std::as_bytes(std::span(data))); }
  // Overwrites bytes that were written, from the start of the file: a header whose content is known
  // last. Not part of crc32c().
  Status WriteAtStart(std::span<const std::byte> data);
  // Renames to `path`; kDurable syncs the file before and the folder after.
  enum class Durability { kDurable, kCrashOfProcess };
  Status Commit(Durability durability = Durability::kDurable);

  // Of all bytes given to Write(), and their number.
  uint32_t crc32c() const { return crc_; }
  int64_t size() const { return size_; }

 private:
  AtomicFile(std::string path, std::string temporary, int descriptor)
      : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

  Status Flush();
  Status WriteThrough(std::span<const std::byte> data);

  std::string path_;
  std::string temporary_;
  int descriptor_;
  std::vector<std::byte> buffer_;  // given to Write(), not yet to the system
  uint32_t crc_ = 0;
  int64_t size_ = 0;
};

Status WriteFileAtomically(const std::string& path, std::string_view content);

StatusOr<std::string> ReadWholeFile(const std::string& path);

// Writes to standard output and flushes it, with all that was printed before. StorageError where
// any of it was lost (a full disk); a reader who went away is no error.
Status WriteStdout(std::string_view text);

// A file mapped for reading; the bytes live as long as this object.
class MappedFile {
 public:
  static StatusOr<MappedFile> Open(const std::string& path);

  std::span<const std::byte> bytes() const { return {data_.get(), data_.get_deleter().size}; }

 private:
  struct Unmap {
    size_t size = 0;
    void operator()(const std::byte* data) const;
  };
  explicit MappedFile(std::unique_ptr<const std::byte, Unmap> data) : data_(std::move(data)) {}

  std::unique_ptr<const std::byte, Unmap> data_;
};

// Makes the names in a folder durable.
Status SyncDirectory(const std::string& path);
Status MakeDirectories(const std::string& path);
// Points `link` to `target` (relative to the link's folder) in one step. Where the file system has
// no symbolic links it becomes a file that holds the target.
Status ReplaceLink(const std::string& target, const std::string& link);
// What it points to; "" where it is not there, or neither.
std::string LinkTarget(const std::string& link);

// "dir/name" -> "dir", "name" -> ".".
std::string ParentOf(const std::string& path);

}  // namespace dtrain

#endif  // DTRAIN_BASE_FILE_H_
