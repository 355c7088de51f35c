// file_content.h - hashes the content of files, so that data made from them can be found again.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_FILE_CONTENT_H_
#define DTRAIN_DATA_INTERNAL_FILE_CONTENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain::internal {

// The state of input files at the time their contents were hashed. The files are read again later,
// by path. Data made from them may use the hash only if they have not changed.
class InputFiles {
 public:
  // "1234 bytes, hash 0123456789abcdef", for the bytes on the disk. Returns DataError if the file
  // is missing, unreadable, or not a regular file.
  StatusOr<std::string> DescribeContent(const std::string& path);

  // Returns DataError if any described file now has another size, time or inode.
  Status CheckUnchanged() const;

 private:
  struct State {
    std::string path;
    int64_t size = 0;
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    uint64_t inode = 0;
    bool operator==(const State&) const = default;
  };
  static StatusOr<State> Look(const std::string& path);

  std::vector<State> states_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_FILE_CONTENT_H_
