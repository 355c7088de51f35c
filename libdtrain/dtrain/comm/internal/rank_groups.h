// rank_groups.h - the ranks of this host, and the ranks at the same place of every host.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_RANK_GROUPS_H_
#define DTRAIN_COMM_INTERNAL_RANK_GROUPS_H_

#include <vector>

#include "dtrain/comm/communicator.h"

namespace dtrain::internal {

struct RankGroups {
  std::vector<int> host;  // the ranks of this host, ascending
  // One rank of each host, ascending: those with this rank's local rank. Empty if a hierarchy would
  // change nothing: with one host, one rank per host, or different numbers of ranks per host.
  std::vector<int> cross;
};

RankGroups FindRankGroups(const RankTopology& topology);

// The place of a rank in its group.
int PlaceOf(const std::vector<int>& group, int rank);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_RANK_GROUPS_H_
