// stall_watch_test.cc - when late ranks are named, and when a rank gives up.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/stall_watch.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/log.h"
#include "testing/catch.h"

namespace dtrain::internal {
namespace {

class StallWatchTest {
 public:
  ~StallWatchTest() { SetLogSink(previous_); }

 protected:
  std::vector<std::string> lines_;
  StallWatch watch_{RankTopology(0, {"a", "b"}), /*warning_seconds=*/2, /*timeout_seconds=*/5};

 private:
  LogSink previous_ =
      SetLogSink([this](LogLevel, std::string_view line) { lines_.emplace_back(line); });
};

TEST_CASE_METHOD(StallWatchTest, "a late vote is named once per wait, and given up in the end") {
  const std::array missing{1};
  CHECK_FALSE(watch_.IsVoteWaitDue(1));
  REQUIRE(watch_.IsVoteWaitDue(3));
  CHECK(watch_.OnVoteWait(3, missing, "\"w\"", false).empty());
  CHECK(lines_.size() == 1);
  CHECK_FALSE(watch_.IsVoteWaitDue(4));
  CHECK(
      watch_.OnVoteWait(6, missing, "\"w\"", false) ==
      "rank 0 (host a) has waited 6.0 s for rank 1 (host b), which submitted nothing, with \"w\"; "
      "gave up");
  CHECK(lines_.size() == 1);
  watch_.EndVoteWait();
  CHECK(watch_.IsVoteWaitDue(3));
}

TEST_CASE_METHOD(StallWatchTest, "a rank without tensors says what it waits for instead") {
  const std::array missing{1};
  CHECK(watch_.OnVoteWait(6, missing, "", true) ==
        "rank 0 (host a) has waited 6.0 s for rank 1 (host b), to join or to submit something; "
        "gave up");
  CHECK(watch_.OnVoteWait(6, missing, "", false) ==
        "rank 0 (host a) has waited 6.0 s for rank 1 (host b), to end its collectives too; "
        "gave up");
}

TEST_CASE_METHOD(StallWatchTest, "the first rank that has a tensor speaks for all") {
  Negotiation::Stalled mine{.name = "w", .first_rank = 0, .missing = {1}, .seconds = 3};
  const Negotiation::Stalled others{.name = "x", .first_rank = 1, .missing = {0}, .seconds = 9};
  CHECK(watch_.OnStalled({mine, others}).empty());
  REQUIRE(lines_.size() == 1);
  CHECK_THAT(lines_[0], Catch::Contains("\"w\" has waited 3.0 s for rank 1 (host b); other ranks "
                                        "have submitted it"));
  mine.announced = true;
  mine.seconds = 6;
  CHECK(watch_.OnStalled({mine}) == "\"w\" has waited 6.0 s for rank 1 (host b); gave up");
  CHECK(lines_.size() == 1);
}

TEST_CASE_METHOD(StallWatchTest, "without a time-out a rank waits for ever") {
  const StallWatch patient(RankTopology(0, {"a", "b"}), 2, /*timeout_seconds=*/0);
  CHECK(patient.first_seconds() == 2);
  CHECK(
      patient.OnStalled({{.name = "w", .first_rank = 0, .missing = {1}, .seconds = 1e6}}).empty());
  CHECK(StallWatch(RankTopology(0, {"a"}), 60, 5).first_seconds() == 5);
}

}  // namespace
}  // namespace dtrain::internal
