// groups.cc - colours for Communicator::Split().
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/groups.h"

#include "dtrain/base/check.h"

namespace dtrain {

std::unique_ptr<Communicator> MakeGroup(Communicator& comm, std::span<const int> ranks) {
  bool member = false;
  for (const int r : ranks) {
    DT_CHECK(r >= 0 && r < comm.size()) << "rank " << r << " of " << comm.size();
    member = member || r == comm.rank();
  }
  return comm.Split(member ? 0 : -1);
}

std::unique_ptr<Communicator> MakeHostGroup(Communicator& comm) {
  const RankTopology& topology = comm.topology();
  int first = 0;
  while (topology.host(first) != topology.host(comm.rank())) ++first;
  return comm.Split(first);
}

std::unique_ptr<Communicator> MakeCrossGroup(Communicator& comm) {
  return comm.Split(comm.topology().local_rank());
}

}  // namespace dtrain
