// file_content.h - names the content of a file, so that what was made from it is found again.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_FILE_CONTENT_H_
#define DTRAIN_DATA_INTERNAL_FILE_CONTENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain::internal {

// Files as they are when their contents are named. They are read once more after that, by path:
// what is made of them may keep the name only if they are still the same then.
class InputFiles {
 public:
  // "1234 bytes, hash 0123456789abcdef": of the bytes as they are on the disk. DataError for what
  // is missing, unreadable, or no regular file.
  StatusOr<std::string> DescribeContent(const std::string& path);

  // DataError when one of the described files has another size, time or inode than then.
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
