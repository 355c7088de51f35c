// fetched_file.h - tells what a failed download left where a file of weights should lie.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_FORMATS_INTERNAL_FETCHED_FILE_H_
#define DTRAIN_FORMATS_INTERNAL_FETCHED_FILE_H_

#include <cstddef>
#include <span>
#include <string>

#include "dtrain/base/status.h"

namespace dtrain::internal {

// StorageError with what to do where `bytes`, a whole file of weights, are none, a pointer of Git
// LFS or a web page. `path` is for messages.
Status CheckFetched(const std::string& path, std::span<const std::byte> bytes);

}  // namespace dtrain::internal

#endif  // DTRAIN_FORMATS_INTERNAL_FETCHED_FILE_H_
