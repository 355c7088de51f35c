// rank_topology_test.cc - numbers, hosts and names of ranks and of groups.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/comm/communicator.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("a rank knows its place among the ranks of its host, wherever those stand") {
  const RankTopology topology(3, {"a", "b", "a", "a", "b"});
  CHECK(topology.size() == 5);
  CHECK(topology.local_rank() == 2);
  CHECK(topology.local_size() == 3);
  CHECK(topology.RankName(4) == "rank 4 (host b)");
  CHECK(topology.group_name().empty());
}

TEST_CASE("a group of a group names its ranks by their numbers in the job") {
  const RankTopology job(3, {"a", "b", "a", "b"});
  const RankTopology group = job.Group(std::array{1, 3, 2});
  CHECK(group.rank() == 1);
  CHECK(group.local_size() == 2);
  CHECK(group.RankName(1) == "rank 3 (host b)");
  CHECK(group.group_name() == "ranks 1, 3, 2");
  const RankTopology alone = group.Group(std::array{1});
  CHECK(alone.rank() == 0);
  CHECK(alone.group_name() == "rank 3");
  CHECK(alone.local_rank() == 0);
}

TEST_CASE("a split that keeps all ranks keeps the name, and a long name is cut") {
  const RankTopology job(0, std::vector<std::string>(12, "a"));
  std::vector<int> ranks(12);
  std::iota(ranks.begin(), ranks.end(), 0);
  CHECK(job.Group(ranks).group_name().empty());
  ranks.pop_back();
  const RankTopology group = job.Group(ranks);
  CHECK(group.group_name() == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more");
  CHECK(group.Group(ranks).group_name() == group.group_name());
}

TEST_CASE("a rank outside of the job or of its group is a broken contract") {
  CHECK_THROWS_AS(RankTopology(2, {"a", "a"}), CheckError);
  CHECK_THROWS_AS(RankTopology(0, {"a", "a"}).Group(std::array{1}), CheckError);
}

}  // namespace
}  // namespace dtrain
