// groups.h - communicators for some of the ranks: a list of them, a host, or one rank of each host.
// SPDX-License-Identifier: Apache-2.0
//
// All ranks of `comm` call these, in the same order as their other splits (Communicator::Split).
#ifndef DTRAIN_COMM_GROUPS_H_
#define DTRAIN_COMM_GROUPS_H_

#include <initializer_list>
#include <memory>
#include <span>

#include "dtrain/comm/communicator.h"

namespace dtrain {

// A communicator for `ranks`, or null on the other ranks. All ranks pass the same list.
std::unique_ptr<Communicator> MakeGroup(Communicator& comm, std::span<const int> ranks);
inline std::unique_ptr<Communicator> MakeGroup(Communicator& comm,
                                               std::initializer_list<int> ranks) {
  return MakeGroup(comm, std::span<const int>(ranks.begin(), ranks.size()));
}

// A communicator for the ranks of this host.
std::unique_ptr<Communicator> MakeHostGroup(Communicator& comm);

// A communicator for the ranks that have the same local rank as this one: one rank of each host.
std::unique_ptr<Communicator> MakeCrossGroup(Communicator& comm);

}  // namespace dtrain

#endif  // DTRAIN_COMM_GROUPS_H_
