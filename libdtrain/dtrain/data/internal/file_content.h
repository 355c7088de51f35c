// file_content.h - names the content of a file, so that what was made from it is found again.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_FILE_CONTENT_H_
#define DTRAIN_DATA_INTERNAL_FILE_CONTENT_H_

#include <string>

#include "dtrain/base/status.h"

namespace dtrain::internal {

// "1234 bytes, hash 0123456789abcdef": of the bytes as they are on the disk. DataError for what is
// missing, unreadable, or no regular file.
absl::StatusOr<std::string> DescribeContent(const std::string& path);

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_FILE_CONTENT_H_
