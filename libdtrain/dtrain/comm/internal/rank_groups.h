// rank_groups.h - who shares a host, and who stands at the same place of every host.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_RANK_GROUPS_H_
#define DTRAIN_COMM_INTERNAL_RANK_GROUPS_H_

#include <vector>

#include "dtrain/comm/communicator.h"

namespace dtrain::internal {

struct RankGroups {
  std::vector<int> host;  // ranks of this host, ascending
  // Ranks with this local rank, one of each host, ascending. Empty where a hierarchy is nothing
  // new: one host, one rank per host, or hosts with different numbers of ranks.
  std::vector<int> cross;
};

RankGroups FindRankGroups(const Communicator& comm);

// Of a rank that is in the group.
int PlaceOf(const std::vector<int>& group, int rank);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_RANK_GROUPS_H_
