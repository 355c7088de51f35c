// byte_source.h - a stream of bytes from a plain, gzip or Zstandard file.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_BYTE_SOURCE_H_
#define DTRAIN_DATA_INTERNAL_BYTE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "dtrain/base/status.h"

namespace dtrain::internal {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to `capacity` > 0 bytes. Returns fewer only near the end, and 0 at the end. Errors
  // name the path.
  virtual StatusOr<int64_t> Read(char* out, int64_t capacity) = 0;
  // True where Read() would wait longer than this for the writer of a pipe or a terminal.
  virtual bool WouldWait(int milliseconds) const {
    static_cast<void>(milliseconds);
    return false;
  }
};

// Opens a file or pipe; never seeks. Returns DataError if it is missing, unreadable, a directory,
// or compressed in another format.
StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(const std::string& path);
// The standard input from its current position. Opening it by name would start a file from its
// beginning, and would fail for a socket.
StatusOr<std::unique_ptr<ByteSource>> StandardInput();

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_BYTE_SOURCE_H_
