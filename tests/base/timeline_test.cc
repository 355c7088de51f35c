// timeline_test.cc - spans in order, a full ring, and a timeline that is off.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/timeline.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("spans come out in the order in which they ended, with lane and index") {
  Timeline timeline(8);
  timeline.set_on(true);
  {
    const Timeline::Span outer(timeline, "outer", 1, 7);
    const Timeline::Span inner(timeline, "inner", 2);
  }
  const std::vector<TimelineSpan> spans = timeline.Take();
  REQUIRE(spans.size() == 2);
  CHECK(std::string(spans[0].name.data()) == "inner");
  CHECK(spans[0].lane == 2);
  CHECK(spans[0].index == -1);
  CHECK(std::string(spans[1].name.data()) == "outer");
  CHECK(spans[1].index == 7);
  CHECK(spans[1].begin <= spans[0].begin);
  CHECK(spans[0].begin <= spans[0].end);
  CHECK(spans[0].end <= spans[1].end);
  CHECK(timeline.Take().empty());
}

TEST_CASE("a full ring keeps the newest spans and counts the others") {
  Timeline timeline(4);
  timeline.set_on(true);
  timeline.Add("early", {});
  CHECK(timeline.Take().size() == 1);  // the ring now begins in its middle
  for (int64_t i = 0; i < 10; ++i) timeline.Add("a", {.index = i});
  CHECK(timeline.size() == 4);
  CHECK(timeline.lost() == 6);
  const std::vector<TimelineSpan> spans = timeline.Take();
  REQUIRE(spans.size() == 4);
  for (size_t i = 0; i < spans.size(); ++i) CHECK(spans[i].index == static_cast<int64_t>(i) + 6);
}

TEST_CASE("a timeline that is off keeps nothing new, and a long name is cut") {
  Timeline timeline(4);
  timeline.Add("before", {});
  { const Timeline::Span span(timeline, "before", 1); }
  CHECK(timeline.size() == 0);
  timeline.set_on(true);
  timeline.Add(std::string(100, 'x'), {});
  timeline.set_on(false);
  timeline.Add("after", {});
  const std::vector<TimelineSpan> spans = timeline.Take();
  REQUIRE(spans.size() == 1);
  CHECK(std::string(spans[0].name.data()) == std::string(spans[0].name.size() - 1, 'x'));
}

TEST_CASE("spans of several threads are all taken once") {
  Timeline timeline(1 << 12);
  timeline.set_on(true);
  constexpr int kOfThread = 1000;
  std::atomic<int> at_work = 3;
  std::vector<std::thread> threads;
  for (int lane = 0; lane < 3; ++lane) {
    threads.emplace_back([&, lane] {
      for (int i = 0; i < kOfThread; ++i) const Timeline::Span span(timeline, "work", lane, i);
      --at_work;
    });
  }
  std::vector<TimelineSpan> spans;
  const auto take = [&] {
    for (const TimelineSpan& span : timeline.Take()) spans.push_back(span);
  };
  while (at_work > 0) take();
  for (std::thread& thread : threads) thread.join();
  take();
  REQUIRE(spans.size() == 3 * kOfThread);
  std::vector<int64_t> next(3);
  for (const TimelineSpan& span : spans) {
    CHECK(span.index == next[static_cast<size_t>(span.lane)]++);
  }
}

}  // namespace
}  // namespace dtrain
