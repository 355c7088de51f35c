// gather.h - small objects of every rank: gathered by all, or sent by one. Blocking.
// SPDX-License-Identifier: Apache-2.0
//
//   const std::vector<double> seconds = AllGather(comm, timer.Seconds());   // by rank
//   const std::vector<std::string> names = AllGatherStrings(comm, name);
#ifndef DTRAIN_COMM_GATHER_H_
#define DTRAIN_COMM_GATHER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dtrain/comm/communicator.h"

namespace dtrain {

namespace internal {
// all: one block of bytes_each bytes for each rank. This rank's block is filled.
void AllGatherBlocks(Communicator& comm, void* all, int64_t bytes_each);
}  // namespace internal

// The value of every rank, by rank.
template <typename T>
std::vector<T> AllGather(Communicator& comm, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<size_t>(comm.size()));
  all[static_cast<size_t>(comm.rank())] = value;
  internal::AllGatherBlocks(comm, all.data(), static_cast<int64_t>(sizeof(T)));
  return all;
}

// The text of every rank, by rank.
std::vector<std::string> AllGatherStrings(Communicator& comm, std::string_view text);

// The text of rank `root`. The other ranks' `text` is ignored.
std::string BroadcastString(Communicator& comm, std::string_view text, int root = 0);

}  // namespace dtrain

#endif  // DTRAIN_COMM_GATHER_H_
