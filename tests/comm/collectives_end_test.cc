// collectives_end_test.cc - ranks that leave named collectives early, late or by giving up.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "comm/collectives_suite.h"
#include "dtrain/base/check.h"
#include "dtrain/comm/collectives.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::RunRanks;
using testing::View;

// Rank 0 leaves with "late" pending, which rank 1 submits when rank 0 has given up waiting for it.
// The status of rank 1. After a group of two there is memory for what a rank lacks.
Status LateForOneThatLeft(bool groups_first) {
  return RunRanks(2, [&](Communicator& comm) {
    Collectives collectives(comm, {.stall_warning_seconds = 0.1, .timeout_seconds = 0.4});
    std::vector<float> first(4, 1.0f);
    std::vector<float> second(4, 1.0f);
    if (groups_first) {
      const std::vector<Tensor> group = {View(first), View(second)};
      DT_CHECK(collectives.GroupedAllReduce("group", group).Wait().ok());
    }
    CollectiveHandle late;
    if (comm.rank() == 0) late = collectives.AllReduce("late", View(first));
    DT_CHECK(collectives.AllReduce("common", View(second)).Wait().ok());
    if (comm.rank() == 0) return OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    return collectives.AllReduce("late", View(first)).Wait();
  })[1];
}

TEST_CASE("38: what a rank had pending that left and gave up fails for a late one") {
  for (const bool groups_first : {false, true}) {
    CHECK(testing::ExpectError(LateForOneThatLeft(groups_first), ExitCode::kCommunication,
                               {"rank 0 (host a) has waited", "gave up", "\"late\""}) == "");
  }
}

TEST_CASE("a rank of a group that has joined is named as the job counts it") {
  const auto texts = RunRanks(4, [](Communicator& comm) {
    const auto group = comm.Split(comm.rank() / 2);
    Collectives collectives(*group);
    std::vector<float> values(4, 1.0f);
    std::string text;
    if (group->rank() == 1) {
      text = collectives.AllGather("x", View(values)).Wait().message();
    }
    DT_CHECK(collectives.Join().ok());
    return text;
  });
  CHECK_THAT(texts[1], Catch::Contains("\"x\": rank 0 has joined"));
  CHECK_THAT(texts[3], Catch::Contains("\"x\": rank 2 has joined"));
}

TEST_CASE("a view with gaps between its rows is refused on every rank") {
  const auto statuses = RunRanks(2, [](Communicator& comm) {
    Collectives collectives(comm);
    std::vector<float> values(8, 1.0f);
    const Tensor whole = View(values, {2, 4});
    const Tensor tensor = comm.rank() == 1 ? whole.Columns(1, 3) : View(values, {2, 2});
    return collectives.AllReduce("view", tensor).Wait();
  });
  for (const Status& status : statuses) {
    CHECK(testing::ExpectError(status, ExitCode::kUsage,
                               {"all-reduce \"view\" on rank 1", "row stride of 4; copy it"}) ==
          "");
  }
  CHECK_THROWS_WITH(CollectiveHandle().Wait(), Catch::Contains("stands for no collective"));
}

}  // namespace
}  // namespace dtrain
