// collectives_timeline_test.cc - what named collectives leave in a timeline: tensors and exchanges.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "comm/collectives_suite.h"
#include "dtrain/base/check.h"
#include "dtrain/base/timeline.h"
#include "dtrain/comm/collectives.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::RunRanks;
using testing::View;

using Spans = std::vector<TimelineSpan>;

Spans Named(const Spans& spans, const std::string& name) {
  Spans found;
  std::copy_if(spans.begin(), spans.end(), std::back_inserter(found),
               [&](const TimelineSpan& span) { return name == span.name.data(); });
  return found;
}

TEST_CASE("a timeline shows how long each tensor waited, and what it travelled with") {
  std::atomic<bool> is_early_there = false;
  const std::vector<Spans> of_ranks = RunRanks(2, [&](Communicator& comm) {
    Timeline timeline;
    timeline.set_on(true);
    {
      Collectives collectives(comm, {.timeline = &timeline});
      std::vector<float> late(10), first(3), second(4), bad(comm.rank() == 0 ? 2 : 3);
      if (comm.rank() == 1) {
        while (!is_early_there) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      const CollectiveHandle handle = collectives.AllReduce("late", View(late));
      is_early_there = true;
      DT_CHECK(handle.Wait().ok());
      const std::array<Tensor, 2> pair = {View(first), View(second)};
      DT_CHECK(collectives.GroupedAllReduce("pair", pair).Wait().ok());
      DT_CHECK(!collectives.Broadcast("bad", View(bad)).Wait().ok());
      DT_CHECK(collectives.Broadcast("weights", View(late)).Wait().ok());
      DT_CHECK(collectives.Barrier().ok());
      DT_CHECK(collectives.Join().ok());
    }
    return timeline.Take();
  });
  for (const Spans& spans : of_ranks) {
    const auto only = [&](const std::string& name) {
      INFO(name);
      const Spans found = Named(spans, name);
      REQUIRE(found.size() == 1);
      CHECK(found[0].begin <= found[0].end);
      return found[0];
    };
    for (const char* name : {"late", "pair", "bad", "weights", "Barrier()", "Join()"}) {
      CHECK(only(name).lane == kTensorLane);
    }
    CHECK(only("late").bytes == 40);
    CHECK(only("pair").bytes == 28);
    CHECK(only("Barrier()").bytes == -1);
    const auto travels = [&](const char* exchange, const char* tensor, int64_t bytes) {
      CHECK(only(exchange).lane == kCommunicationLane);
      CHECK(only(exchange).bytes == bytes);
      CHECK(only(tensor).begin <= only(exchange).begin);
      CHECK(only(exchange).end <= only(tensor).end);
    };
    travels("all-reduce", "late", 40);
    travels("all-reduce of 2", "pair", 28);
    travels("broadcast", "weights", 40);
    CHECK(spans.size() == 9);
  }
  const TimelineSpan early = Named(of_ranks[0], "late")[0];
  const TimelineSpan late = Named(of_ranks[1], "late")[0];
  CHECK(early.begin + 20'000'000 <= late.begin);
  CHECK(late.begin < early.end);
}

TEST_CASE("what is pending when the collectives end is in the timeline as well") {
  const std::vector<Spans> of_ranks = RunRanks(2, [](Communicator& comm) {
    Timeline timeline;
    timeline.set_on(true);
    std::vector<float> values(4);
    {
      Collectives collectives(comm, {.timeline = &timeline});
      if (comm.rank() == 0) collectives.AllReduce("alone", View(values));
    }
    return timeline.Take();
  });
  CHECK(Named(of_ranks[0], "alone").size() == 1);
  CHECK(of_ranks[1].empty());
}

TEST_CASE("a timeline may be turned on and off between collectives") {
  const std::vector<Spans> of_ranks = RunRanks(2, [](Communicator& comm) {
    Timeline timeline;
    Collectives collectives(comm, {.timeline = &timeline});
    std::vector<float> values(4);
    const auto reduce = [&](const char* name) {
      DT_CHECK(collectives.AllReduce(name, View(values)).Wait().ok());
    };
    reduce("before");
    timeline.set_on(true);
    reduce("within");
    timeline.set_on(false);
    reduce("after");
    return timeline.Take();
  });
  for (const Spans& spans : of_ranks) {
    CHECK(Named(spans, "before").empty());
    CHECK(Named(spans, "within").size() == 1);
    CHECK(Named(spans, "after").empty());
    CHECK(spans.size() == 2);  // the tensor and its exchange
  }
}

}  // namespace
}  // namespace dtrain
