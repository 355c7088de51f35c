// watchdog_test.cc - who is named, who is given up, and who is only slow.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/watchdog.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/comm/heartbeat.h"
#include "testing/catch.h"

namespace dtrain::internal {
namespace {

// Rank 0's table of three ranks on hosts a and b; beats come once a second.
class Table {
 public:
  Table() {
    for (int r = 0; r < 3; ++r) {
      Beat& beat = beats[static_cast<size_t>(r)];
      beat.rank = r;
      beat.process = 100 + r;
      beat.step = 7;
      beat.phase = Phase::kBackward;
      SetCollective(r, 5);
    }
  }

  void SetCollective(int rank, int64_t count) {
    Beat& beat = beats[static_cast<size_t>(rank)];
    beat.sequence = count;
    std::strcpy(beat.collective.data(), "AllReduce");
  }
  // All that is found in `seconds`, in which the ranks but `silent` send a beat each second.
  Findings Run(int seconds, const std::vector<int>& silent = {}) {
    Findings all;
    for (int i = 0; i < seconds && all.failure.empty(); ++i) {
      now += 1;
      for (Beat& beat : beats) {
        if (std::find(silent.begin(), silent.end(), beat.rank) != silent.end()) continue;
        ++beat.count;
        if (computes && !beat.waiting) beat.cpu_milliseconds += 900;
        beat.step += steps_a_second;
        beat.waited_seconds += waits[static_cast<size_t>(beat.rank)];
        watch.Hear(beat, now);
      }
      const Findings found =
          watch.Look(now, [&](int64_t n) -> std::optional<uint64_t> { return digest_after(n); });
      all.complete = found.complete;
      all.note += found.note;
      all.failure = found.failure;
    }
    return all;
  }

  std::array<Beat, 3> beats;
  bool computes = true;  // a rank that does not wait uses its processor
  int64_t steps_a_second = 0;
  std::array<double, 3> waits{};  // of each second
  double now = 0;
  std::function<std::optional<uint64_t>(int64_t)> digest_after = [](int64_t) {
    return std::nullopt;
  };
  Watchdog watch{{"a", "a", "b"}, {0, 1, 2}, WatchTimes({})};
};

TEST_CASE("ranks that beat are neither named nor given up, however long they compute") {
  Table table;
  const Findings found = table.Run(10000);
  CHECK(found.complete);
  CHECK(found.note.empty());
  CHECK(found.failure.empty());
}

TEST_CASE("a silent rank is named within 10 s and given up within the time-out") {
  Table table;
  table.Run(3);
  const Findings named = table.Run(9, {2});
  CHECK_THAT(
      named.note,
      Catch::Contains("rank 2 (host b, process 102), at step 7 in backward, its last "
                      "collective number 4 (AllReduce) is silent: stopped, dead or cut off"));
  CHECK(named.failure.empty());
  CHECK(table.Run(90, {2}).failure.empty());
  const Findings lost = table.Run(18, {2});
  CHECK_THAT(lost.failure, Catch::Contains("rank 2 (host b, process 102)") &&
                               Catch::Contains("has been silent for"));
  CHECK(table.now - 3 < 120);
}

TEST_CASE("a rank that was silent for a while is said to be back") {
  Table table;
  table.Run(3);
  table.Run(9, {2});
  CHECK_THAT(table.Run(1).note, Catch::Equals("rank 2 is back"));
  CHECK(table.Run(1000).failure.empty());
}

TEST_CASE("a rank that leaves is not missed") {
  Table table;
  table.Run(3);
  table.beats[1].leaving = true;
  table.Run(1);
  const Findings found = table.Run(1000, {1});
  CHECK(found.note.empty());
  CHECK(found.failure.empty());
}

TEST_CASE("a rank that computes while others wait is named within 10 s and never given up") {
  Table table;
  table.Run(3);
  table.beats[0].waiting = table.beats[2].waiting = true;
  for (int second = 0; second < 9; ++second) {
    const std::string note = table.Run(1).note;
    INFO(second);
    if (second < 8) CHECK(note.empty());
    if (second == 8) {
      CHECK_THAT(note, Catch::Contains("others have waited for rank 1 (host a, process 101), at "
                                       "step 7 in backward"));
    }
  }
  int notes = 0;
  for (int second = 0; second < 600; ++second) {
    const Findings found = table.Run(1);
    REQUIRE(found.failure.empty());
    notes += found.note.empty() ? 0 : 1;
  }
  CHECK(notes == 10);
}

TEST_CASE("a rank that has just gone on is not named for the wait of one whose beat is older") {
  Table table;
  table.Run(3);
  table.beats[0].waiting = table.beats[2].waiting = true;
  CHECK(table.Run(8).note.empty());
  table.beats[0].waiting = false;
  table.SetCollective(1, 6);
  CHECK(table.Run(1, {2}).note.empty());
  table.beats[2].waiting = false;
  CHECK(table.Run(100).note.empty());
}

TEST_CASE("nobody is named for the time in which a rank was silent") {
  const bool all_go_on = GENERATE(true, false);
  Table table;
  table.Run(3);
  table.beats[0].waiting = table.beats[2].waiting = true;
  CHECK_THAT(table.Run(10, {1}).note, Catch::EndsWith("stopped, dead or cut off"));
  if (all_go_on) {
    table.beats[0].waiting = false;
    CHECK_THAT(table.Run(1, {2}).note, Catch::Equals("rank 1 is back"));
    table.beats[2].waiting = false;
    CHECK(table.Run(100).note.empty());
    return;
  }
  CHECK_THAT(table.Run(1).note, Catch::Equals("rank 1 is back"));
  CHECK(table.Run(7).note.empty());
  CHECK_THAT(table.Run(1).note,
             Catch::StartsWith("for 8 s others have waited for rank 1 (host a, process 101)"));
}

TEST_CASE("ranks are described by the named tensors that they wait for, or have waited for") {
  Table table;
  table.Run(3);
  for (Beat& beat : table.beats) {
    beat.named = true;
    std::strcpy(beat.collective.data(), "layer1.weight");
  }
  table.beats[0].waiting = table.beats[2].waiting = true;
  CHECK_THAT(table.Run(9).note,
             Catch::Contains("rank 1 (host a, process 101), at step 7 in backward, its last "
                             "collective \"layer1.weight\""));
  table.beats[1].waiting = true;
  CHECK_THAT(table.Run(120).failure,
             Catch::Contains("every rank waits") &&
                 Catch::Contains("waiting in collective \"layer1.weight\""));
}

TEST_CASE("a rank that is a little late in every step is named within 10 s, and then seldom") {
  Table table;
  table.steps_a_second = 4;
  table.waits = {0.7, 0.05, 0.68};
  const Findings found = table.Run(10);
  CHECK_THAT(found.note,
             Catch::Contains("others have waited for 70 % of 8 s of training, a part of "
                             "each step, for rank 1 (host a, process 101)") &&
                 !Catch::Contains("rank 0") && !Catch::Contains("rank 2"));
  int notes = 0;
  for (int second = 0; second < 600; ++second) {
    const Findings later = table.Run(1);
    REQUIRE(later.failure.empty());
    notes += later.note.empty() ? 0 : 1;
  }
  CHECK(notes >= 8);
  CHECK(notes <= 10);
}

TEST_CASE("both ranks of a slow host are named") {
  Table table;
  table.waits = {0.6, 0.1, 0.05};
  const std::string note = table.Run(10).note;
  CHECK_THAT(note, Catch::Contains("for rank 1 (host a") && Catch::Contains("; rank 2 (host b"));
}

TEST_CASE("nobody is named where all wait alike, as on a slow network") {
  Table table;
  table.waits = {0.8, 0.7, 0.9};
  CHECK(table.Run(1000).note.empty());
}

TEST_CASE("nobody is named for waits while a rank evaluates") {
  Table table;
  table.waits = {0.8, 0.0, 0.9};
  table.beats[1].phase = Phase::kEvaluation;
  CHECK(table.Run(1000).note.empty());
  // What was waited before the steps went on does not count.
  table.beats[1].phase = Phase::kForward;
  table.waits = {0.1, 0.1, 0.1};
  CHECK(table.Run(1000).note.empty());
}

TEST_CASE("starts, evaluations and checkpoints may take a minute before anyone is named") {
  const Phase phase = GENERATE(Phase::kStart, Phase::kEvaluation, Phase::kCheckpoint);
  Table table;
  table.Run(3);
  table.beats[0].waiting = table.beats[2].waiting = true;
  table.beats[1].phase = phase;
  CHECK(table.Run(50).note.empty());
  CHECK_THAT(table.Run(15).note, Catch::Contains("in " + std::string(Name(phase))));
  // On a slow disk a checkpoint takes no time of the processor.
  table.computes = false;
  CHECK(table.Run(1000).failure.empty());
}

TEST_CASE("a rank that neither computes nor moves is given up") {
  Table table;
  table.computes = false;
  table.Run(3);
  table.beats[0].waiting = table.beats[2].waiting = true;
  const Findings found = table.Run(120);
  CHECK_THAT(found.failure,
             Catch::Contains("rank 1 (host a, process 101)") && Catch::Contains("has not moved"));
}

TEST_CASE("ranks that all wait are given up, and their collectives named") {
  Table table;
  table.Run(3);
  for (Beat& beat : table.beats) beat.waiting = true;
  table.SetCollective(2, 6);
  const Findings found = table.Run(120);
  CHECK_THAT(found.failure, Catch::Contains("every rank waits") &&
                                Catch::Contains("waiting in collective number 4") &&
                                Catch::Contains("waiting in collective number 5"));
}

TEST_CASE("another order of collectives is found at once") {
  Heartbeat root;
  Heartbeat other;
  root.BeginCollective("AllReduce", 40);
  root.BeginCollective("AllReduce", 80);
  root.BeginCollective("Barrier", 0);
  other.BeginCollective("AllReduce", 80);
  other.BeginCollective("AllReduce", 40);
  Table table;
  table.digest_after = [&](int64_t n) { return root.DigestAfter(n); };
  const Heartbeat::State own = root.Read();
  for (Beat& beat : table.beats) {
    beat.sequence = own.sequence;
    beat.digest = own.digest;
  }
  CHECK(table.Run(5).failure.empty());
  table.beats[1].sequence = other.Read().sequence;
  table.beats[1].digest = other.Read().digest;
  CHECK_THAT(table.Run(1).failure,
             Catch::Contains("out of step") && Catch::Contains("rank 1 (host a, process 101)"));
}

TEST_CASE("a rank whose heartbeats never come is named once, and waits decide") {
  Table table;
  Findings found = table.Run(30, {1});
  CHECK_FALSE(found.complete);
  CHECK_THAT(found.note, Catch::Contains("no heartbeat of rank 1 (host a) has arrived"));
  CHECK(table.Run(500, {1}).note.empty());
}

TEST_CASE("an old beat that was overtaken is dropped") {
  Table table;
  table.Run(3);
  Beat old = table.beats[1];
  old.count = 1;
  old.leaving = true;
  table.watch.Hear(old, table.now);
  CHECK_THAT(table.Run(9, {1}).note, Catch::Contains("rank 1") && Catch::Contains("silent"));
}

TEST_CASE("ranks at their end are waited for, and do not wait, as long as they beat") {
  Table table;
  table.computes = false;
  for (Beat& beat : table.beats) beat.phase = Phase::kEnd;
  Findings found = table.Run(1000);
  CHECK(found.note.empty());
  CHECK(found.failure.empty());
  // One still calls a collective that the others never will.
  table.beats[2].phase = Phase::kForward;
  table.beats[2].waiting = true;
  found = table.Run(200);
  CHECK(found.note.empty());
  CHECK_THAT(found.failure, Catch::Contains("every rank waits and nothing has moved") &&
                                Catch::Contains("rank 1 (host a, process 101), at step 7 in its "
                                                "end, its last collective number 4 (AllReduce), "
                                                "which has ended"));
}

TEST_CASE("a rank at its end that falls silent is given up") {
  Table table;
  for (Beat& beat : table.beats) beat.phase = Phase::kEnd;
  table.Run(10);
  const Findings found = table.Run(130, {1});
  CHECK_THAT(found.failure, Catch::Contains("rank 1 (host a, process 101), at step 7 in its end") &&
                                Catch::Contains("has been silent for"));
}

}  // namespace
}  // namespace dtrain::internal
