// collectives_heartbeat_test.cc - what heartbeats say of a rank that waits for named tensors.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "dtrain/base/timer.h"
#include "dtrain/comm/collectives.h"
#include "dtrain/comm/heartbeat.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

TEST_CASE("a rank that waits for a tensor which others have not submitted says so, and its name") {
  std::shared_ptr<Heartbeat> heartbeat;  // of rank 0
  Heartbeat::State seen;
  const auto statuses = testing::RunRanks(2, [&](Communicator& comm) {
    Collectives collectives(comm);
    if (comm.rank() == 0) heartbeat = HeartbeatOf(comm);
    comm.Barrier();
    const Timer timer;
    while (comm.rank() == 1 && !(seen.waiting && seen.named) && timer.Seconds() < 10) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      seen = heartbeat->Read();
    }
    std::vector<float> values(4, 1.0f);
    return collectives.AllReduce("weight", Tensor::View(values.data(), {4})).Wait();
  });
  for (const Status& status : statuses) CHECK(status.ok());
  CHECK(seen.waiting);
  CHECK(seen.named);
  CHECK(seen.collective == "weight");
  const Heartbeat::State after = heartbeat->Read();
  CHECK_FALSE(after.waiting);
  CHECK(after.moves > seen.moves);
  CHECK(after.waited_seconds > 0);
}

}  // namespace
}  // namespace dtrain
