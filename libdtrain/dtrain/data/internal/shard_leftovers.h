// shard_leftovers.h - removes temporary files of killed preparations of a shard.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_SHARD_LEFTOVERS_H_
#define DTRAIN_DATA_INTERNAL_SHARD_LEFTOVERS_H_

#include <string>

namespace dtrain::internal {

// Removes temporary files of `shard_path` that are older than a day. Younger ones may be in use,
// perhaps on another machine.
void RemoveShardLeftovers(const std::string& shard_path);

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_SHARD_LEFTOVERS_H_
