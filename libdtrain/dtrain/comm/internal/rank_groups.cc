// rank_groups.cc - groups of ranks by the names of their hosts.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/rank_groups.h"

#include <algorithm>
#include <map>
#include <string>

namespace dtrain::internal {

RankGroups FindRankGroups(const RankTopology& topology) {
  std::map<std::string, std::vector<int>> by_host;
  for (int r = 0; r < topology.size(); ++r) by_host[topology.host(r)].push_back(r);
  RankGroups groups{.host = by_host[topology.host(topology.rank())], .cross = {}};
  const bool even = std::all_of(by_host.begin(), by_host.end(), [&](const auto& entry) {
    return entry.second.size() == groups.host.size();
  });
  if (!even || by_host.size() < 2 || groups.host.size() < 2) return groups;
  for (const auto& [name, ranks] : by_host) {
    groups.cross.push_back(ranks[static_cast<size_t>(topology.local_rank())]);
  }
  std::sort(groups.cross.begin(), groups.cross.end());
  return groups;
}

int PlaceOf(const std::vector<int>& group, int rank) {
  return static_cast<int>(std::find(group.begin(), group.end(), rank) - group.begin());
}

}  // namespace dtrain::internal
