// shard_leftovers.cc - searches the shard's folder by name and age.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/internal/shard_leftovers.h"

#include <chrono>
#include <filesystem>
#include <system_error>

namespace dtrain::internal {

void RemoveShardLeftovers(const std::string& shard_path) {
  const std::filesystem::path shard(shard_path);
  const std::string prefix = ".tmp-" + shard.filename().string() + "-";
  const auto oldest = std::filesystem::file_time_type::clock::now() - std::chrono::hours(24);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(shard.parent_path(), error)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const auto written = entry.last_write_time(error);
    if (!error && written < oldest) std::filesystem::remove(entry.path(), error);
  }
}

}  // namespace dtrain::internal
