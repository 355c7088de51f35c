// byte_source.cc - the three decoders; each has one input buffer.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/internal/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain::internal {
namespace {

constexpr int64_t kInputBytes = 128 << 10;

Status SystemError(const std::string& path, const char* what) {
  return DataError(path + ": " + what + ": " + std::strerror(errno));
}

// The file itself. Its first bytes can be inspected before they are read.
class PlainSource final : public ByteSource {
 public:
  PlainSource(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~PlainSource() override { ::close(fd_); }

  // Returns up to `count` bytes. Stops once a line has ended, so that it does not wait for a person
  // or program that writes to a pipe.
  Status Peek(char* out, int64_t count, int64_t* got) {
    *got = 0;
    while (*got < count && std::find(out, out + *got, '\n') == out + *got) {
      DT_ASSIGN_OR_RETURN(const int64_t n, ReadFile(out + *got, count - *got));
      if (n == 0) break;
      *got += n;
    }
    peeked_.assign(out, static_cast<size_t>(*got));
    return OkStatus();
  }

  StatusOr<int64_t> Read(char* out, int64_t capacity) override {
    if (!peeked_.empty()) {
      const int64_t n = std::min(capacity, static_cast<int64_t>(peeked_.size()));
      std::memcpy(out, peeked_.data(), static_cast<size_t>(n));
      peeked_.erase(0, static_cast<size_t>(n));
      return n;
    }
    return ReadFile(out, capacity);
  }

  bool WouldWait(int milliseconds) const override {
    if (!peeked_.empty()) return false;
    pollfd input{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&input, 1, milliseconds) == 0;
  }

  const std::string& path() const { return path_; }

 private:
  StatusOr<int64_t> ReadFile(char* out, int64_t capacity) {
    for (;;) {
      const ssize_t n = ::read(fd_, out, static_cast<size_t>(capacity));
      if (n >= 0) return static_cast<int64_t>(n);
      if (errno != EINTR) return SystemError(path_, "cannot be read");
    }
  }

  std::string path_;
  int fd_;
  std::string peeked_;
};

Status Damaged(const std::string& path, const char* format, const char* why) {
  return DataError(path + ": damaged " + format + " file (" + why +
                   "); fetch or compress it again");
}

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<PlainSource> file)
      : file_(std::move(file)), input_(static_cast<size_t>(kInputBytes)) {
    // 15 is the largest window; + 16 selects gzip headers.
    valid_ = inflateInit2(&stream_, 15 + 16) == Z_OK;
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  StatusOr<int64_t> Read(char* out, int64_t capacity) override {
    if (!valid_) return OutOfMemoryError(file_->path() + ": no memory to decompress");
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(std::min<int64_t>(capacity, 1 << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0) {
        DT_ASSIGN_OR_RETURN(const int64_t n, file_->Read(input_.data(), kInputBytes));
        if (n == 0 && !in_member_) return int64_t{0};
        if (n == 0) return Damaged(file_->path(), "gzip", "it ends too early");
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(n);
      }
      in_member_ = true;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        // A file may consist of several members (bgzip, cat a.gz b.gz).
        in_member_ = false;
        inflateReset(&stream_);
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return Damaged(file_->path(), "gzip", stream_.msg ? stream_.msg : "no gzip data");
      }
    }
    return static_cast<int64_t>(wanted - stream_.avail_out);
  }

 private:
  std::unique_ptr<PlainSource> file_;
  std::vector<char> input_;
  z_stream stream_{};
  bool valid_ = false;
  bool in_member_ = true;
};

class ZstdSource final : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<PlainSource> file)
      : file_(std::move(file)),
        input_(static_cast<size_t>(kInputBytes)),
        stream_(ZSTD_createDStream()) {}
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  StatusOr<int64_t> Read(char* out, int64_t capacity) override {
    if (stream_ == nullptr) return OutOfMemoryError(file_->path() + ": no memory to decompress");
    ZSTD_outBuffer output{out, static_cast<size_t>(capacity), 0};
    while (output.pos == 0) {
      if (view_.pos == view_.size && !more_output_) {
        DT_ASSIGN_OR_RETURN(const int64_t n, file_->Read(input_.data(), kInputBytes));
        if (n == 0 && !in_frame_) return int64_t{0};
        if (n == 0) return Damaged(file_->path(), "Zstandard", "it ends too early");
        view_ = {input_.data(), static_cast<size_t>(n), 0};
      }
      const size_t hint = ZSTD_decompressStream(stream_, &output, &view_);
      if (ZSTD_isError(hint)) return Damaged(file_->path(), "Zstandard", ZSTD_getErrorName(hint));
      in_frame_ = hint != 0;
      more_output_ = in_frame_ && output.pos == output.size;
    }
    return static_cast<int64_t>(output.pos);
  }

 private:
  std::unique_ptr<PlainSource> file_;
  std::vector<char> input_;
  ZSTD_DStream* stream_;
  ZSTD_inBuffer view_{nullptr, 0, 0};
  bool in_frame_ = true;
  bool more_output_ = false;  // the decoder has output that did not fit
};

// The name of a compression format that is not supported: "xz", "bzip2", "zip" or "".
std::string_view UnreadFormat(std::string_view start) {
  using namespace std::string_view_literals;
  if (start.starts_with("\xFD"
                        "7zXZ\0"sv)) {
    return "xz";
  }
  // A text may begin with BZh; in bzip2 the digits of pi follow.
  if (start.starts_with("BZh") && start.size() > 4 && start.substr(4).starts_with("1AY&SY")) {
    return "bzip2";
  }
  if (start.starts_with("PK\x03\x04")) return "zip";
  return {};
}

// A frame, or a skippable frame, which pzstd writes before each frame (RFC 8878, 3.1).
bool IsZstandard(std::string_view start) {
  return start.starts_with("\x28\xB5\x2F\xFD") ||
         (start.size() >= 4 && start[0] >= 0x50 && start[0] <= 0x5F &&
          start.substr(1).starts_with("\x2A\x4D\x18"));
}

StatusOr<std::unique_ptr<ByteSource>> SourceOf(const std::string& path, int fd) {
  if (fd < 0) return SystemError(path, "cannot be opened");
  auto file = std::make_unique<PlainSource>(path, fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return SystemError(path, "cannot be opened");
  if (S_ISDIR(info.st_mode)) return DataError(path + ": is a directory, not a text file");

  char magic[10] = {};
  int64_t got = 0;
  DT_RETURN_IF_ERROR(file->Peek(magic, sizeof(magic), &got));
  const std::string_view start(magic, static_cast<size_t>(got));
  if (const std::string_view format = UnreadFormat(start); !format.empty()) {
    return DataError(absl::StrFormat(
        "%s: is %s-compressed; unpack it, or give plain text, .gz or .zst", path, ToAbsl(format)));
  }
  std::unique_ptr<ByteSource> source;
  if (start.starts_with("\x1F\x8B")) {
    source = std::make_unique<GzipSource>(std::move(file));
  } else if (IsZstandard(start)) {
    source = std::make_unique<ZstdSource>(std::move(file));
  } else {
    source = std::move(file);
  }
  return source;
}

}  // namespace

StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(const std::string& path) {
  return SourceOf(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

StatusOr<std::unique_ptr<ByteSource>> StandardInput() {
  return SourceOf("the standard input", ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
}

}  // namespace dtrain::internal
