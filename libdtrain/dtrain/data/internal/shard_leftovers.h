// shard_leftovers.h - removes what killed preparations of a shard left behind.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_SHARD_LEFTOVERS_H_
#define DTRAIN_DATA_INTERNAL_SHARD_LEFTOVERS_H_

#include <string>

namespace dtrain::internal {

// Temporary files of `shard_path` that are older than a day: younger ones may be at work, on
// another machine too.
void RemoveShardLeftovers(const std::string& shard_path);

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_SHARD_LEFTOVERS_H_
