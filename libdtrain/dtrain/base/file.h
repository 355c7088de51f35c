// file.h - reads files whole or memory-mapped, and writes them all or nothing.
// SPDX-License-Identifier: Apache-2.0
//
// All errors are StorageErrors that name the path and the system's reason.
//
//   DT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
//   DT_RETURN_IF_ERROR(file.Write(text));
//   DT_RETURN_IF_ERROR(file.Commit());  // only now does `path` exist
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

// Builds the error "PATH: cannot ACTION: No such file or directory". `error` is an errno value.
Status FileError(const std::string& path, std::string_view action, int error);

// A file that is being written. The data goes to .tmp-NAME-RANDOM in the same folder; Commit()
// renames it to `path`. Without a successful Commit() nothing appears at `path`. Small writes are
// buffered. If `path` is a symbolic link, the link stays and its target is replaced. A device or a
// pipe is written directly.
class AtomicFile {
 public:
  static StatusOr<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  // Removes the temporary file if it was not committed.
  ~AtomicFile();

  Status Write(std::span<const std::byte> data);
  Status Write(std::string_view data) { return Write(std::as_bytes(std::span(data))); }
  // Overwrites bytes at the start of the file that were already written, such as a header whose
  // content is known last. crc32c() does not include this change.
  Status WriteAtStart(std::span<const std::byte> data);
  // Renames the temporary file to `path`. kDurable survives a crash of the machine: it syncs the
  // file before and the folder after the rename. kCrashOfProcess survives only a crash of this
  // process.
  enum class Durability { kDurable, kCrashOfProcess };
  Status Commit(Durability durability = Durability::kDurable);

  // CRC32C and number of all bytes passed to Write().
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
  std::vector<std::byte> buffer_;  // bytes passed to Write() that the system does not have yet
  uint32_t crc_ = 0;
  int64_t size_ = 0;
};

Status WriteFileAtomically(const std::string& path, std::string_view content);

// A regular file of at most `max_bytes`; anything else is an error before it is read.
StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t max_bytes = int64_t{1} << 30);

// Writes `text` to standard output and flushes it together with everything printed before. Returns
// StorageError if any of it was lost, for example because the disk is full. A reader that closed
// the pipe is no error.
Status WriteStdout(std::string_view text);

// A file mapped into memory for reading. The bytes are valid as long as this object lives.
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

// Makes creations, renames and removals in a folder durable.
Status SyncDirectory(const std::string& path);
Status MakeDirectories(const std::string& path);
// Makes `link` a symbolic link to `target`, relative to the link's folder, in one atomic step. On
// file systems without symbolic links, `link` becomes a file that contains the target.
Status ReplaceLink(const std::string& target, const std::string& link);
// The target stored by ReplaceLink(), from either form. "" if `link` does not exist or is neither.
std::string LinkTarget(const std::string& link);

// "dir/name" -> "dir", "name" -> ".".
std::string ParentOf(const std::string& path);

}  // namespace dtrain

#endif  // DTRAIN_BASE_FILE_H_
