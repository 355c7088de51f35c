// root_status_test.cc - what the root could not do ends every rank alike.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/root_status.h"

#include <string>

#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

TEST_CASE("every rank ends with the root's exit code, and the root with its own message") {
  const Status failures[] = {OkStatus(),
                             UsageError("why"),
                             DataError("why"),
                             DivergedError("why"),
                             StorageError("why"),
                             StoppedError("why"),
                             OutOfMemoryError("why"),
                             InternalError("why"),
                             CommunicationError("why")};
  for (const Status& failure : failures) {
    const auto ends = testing::RunRanks(3, [&](Communicator& comm) {
      return ShareRootStatus(comm.is_root() ? failure : OkStatus(), "do it", comm);
    });
    for (size_t rank = 0; rank < 3; ++rank) {
      CHECK(ends[rank].code() == failure.code());
      if (failure.ok()) continue;
      CHECK(std::string(ends[rank].message()) ==
            (rank == 0 ? "why" : "the root rank could not do it; its message says why"));
    }
  }
}

}  // namespace
}  // namespace dtrain
