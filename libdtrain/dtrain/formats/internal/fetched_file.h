// fetched_file.h - detects the remains of a failed download in place of a weight file.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_FORMATS_INTERNAL_FETCHED_FILE_H_
#define DTRAIN_FORMATS_INTERNAL_FETCHED_FILE_H_

#include <cstddef>
#include <span>
#include <string>

#include "dtrain/base/status.h"

namespace dtrain::internal {

// Returns StorageError, with advice, if `bytes`, the content of a weight file, is empty, a Git LFS
// pointer or a web page. `path` is used in messages.
Status CheckFetched(const std::string& path, std::span<const std::byte> bytes);

}  // namespace dtrain::internal

#endif  // DTRAIN_FORMATS_INTERNAL_FETCHED_FILE_H_
