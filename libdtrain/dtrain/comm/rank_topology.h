// rank_topology.h - the ranks of a communicator: their numbers, their hosts and their names.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_RANK_TOPOLOGY_H_
#define DTRAIN_COMM_RANK_TOPOLOGY_H_

#include <span>
#include <string>
#include <vector>

namespace dtrain {

// A value: it never changes, and copies are cheap next to any collective.
class RankTopology {
 public:
  // All ranks of a job. hosts: the host name of every rank, by rank.
  RankTopology(int rank, std::vector<std::string> hosts);
  // The group of `ranks`, this rank among them, numbered in this order.
  RankTopology Group(std::span<const int> ranks) const;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  // The place of this rank among the ranks of its host, and the number of those ranks.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  const std::string& host(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  // The number that mpirun gave to `rank`. Messages and files name ranks by it, also in groups,
  // which number their ranks anew.
  int job_rank(int rank) const { return job_ranks_[static_cast<size_t>(rank)]; }
  const std::vector<int>& job_ranks() const { return job_ranks_; }
  // "rank 3 (host b)", by job_rank().
  std::string RankName(int rank) const;
  // "ranks 1, 3" for a group, or "" if all ranks of the job are in it.
  const std::string& group_name() const { return group_name_; }

 private:
  RankTopology() = default;
  void CountLocalRanks();

  int rank_ = -1;
  std::vector<std::string> hosts_;
  std::vector<int> job_ranks_;
  std::string group_name_;
  int local_rank_ = 0;
  int local_size_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_COMM_RANK_TOPOLOGY_H_
