// rank_topology.cc - counts the ranks of a host, and numbers and names those of a group.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/comm/communicator.h"

namespace dtrain {
namespace {

constexpr size_t kNamedRanks = 8;  // listed in the name of a group

}  // namespace

RankTopology::RankTopology(int rank, std::vector<std::string> hosts)
    : rank_(rank), hosts_(std::move(hosts)), job_ranks_(hosts_.size()) {
  DT_CHECK(rank >= 0 && rank < size());
  std::iota(job_ranks_.begin(), job_ranks_.end(), 0);
  CountLocalRanks();
}

RankTopology RankTopology::Group(std::span<const int> ranks) const {
  RankTopology group;
  group.group_name_ = group_name_;
  for (const int r : ranks) {
    if (r == rank_) group.rank_ = group.size();
    group.hosts_.push_back(host(r));
    group.job_ranks_.push_back(job_rank(r));
  }
  DT_CHECK_GE(group.rank_, 0);
  group.CountLocalRanks();
  if (group.size() == size()) return group;
  group.group_name_ = group.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < std::min(group.job_ranks_.size(), kNamedRanks); ++i) {
    absl::StrAppend(&group.group_name_, i == 0 ? " " : ", ", group.job_ranks_[i]);
  }
  if (group.job_ranks_.size() > kNamedRanks) {
    absl::StrAppend(&group.group_name_, " and ", group.job_ranks_.size() - kNamedRanks, " more");
  }
  return group;
}

void RankTopology::CountLocalRanks() {
  for (int r = 0; r < size(); ++r) {
    if (host(r) != host(rank_)) continue;
    if (r < rank_) ++local_rank_;
    ++local_size_;
  }
}

std::string RankTopology::RankName(int rank) const {
  return absl::StrFormat("rank %d (host %s)", job_rank(rank), host(rank));
}

}  // namespace dtrain
