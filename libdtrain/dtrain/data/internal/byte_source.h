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
  // Fills up to `capacity` > 0 bytes; fewer only near the end, 0 at the end. Errors name the path.
  virtual StatusOr<int64_t> Read(char* out, int64_t capacity) = 0;
};

// Pipes work too: nothing seeks. Errors (DataError): missing, unreadable, a directory,
// compressed in another way.
StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(const std::string& path);
// The standard input from where it stands, whatever it is: opened by its name a file would begin
// anew, and a socket cannot be opened.
StatusOr<std::unique_ptr<ByteSource>> StandardInput();

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_BYTE_SOURCE_H_
