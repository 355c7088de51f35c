// unused_path.h - finds an unused path.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_RUNS_INTERNAL_UNUSED_PATH_H_
#define DTRAIN_RUNS_INTERNAL_UNUSED_PATH_H_

#include <filesystem>
#include <string>
#include <system_error>

namespace dtrain::internal {

// Returns PATH-2, or the first larger number for which nothing exists, not even a dangling link.
inline std::string UnusedPathBeside(const std::string& path) {
  for (int n = 2;; ++n) {
    std::string name = path + "-" + std::to_string(n);
    std::error_code error;
    if (!std::filesystem::exists(std::filesystem::symlink_status(name, error))) return name;
  }
}

}  // namespace dtrain::internal

#endif  // DTRAIN_RUNS_INTERNAL_UNUSED_PATH_H_
