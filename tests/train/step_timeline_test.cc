// step_timeline_test.cc - what a trainer writes about its updates, and when it begins and ends.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/step_timeline.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "dtrain/base/log.h"
#include "dtrain/comm/self_communicator.h"
#include "dtrain/runs/trace_files.h"
#include "testing/catch.h"
#include "testing/scripted_communicator.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

using nlohmann::json;

struct Span {
  std::string name;
  int lane = 0;
  double begin = 0.0, end = 0.0;
};

std::vector<Span> SpansOf(const std::string& path) {
  std::vector<Span> spans;
  for (const json& event : json::parse(ReadTestFile(path))) {
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts").get<double>();
    spans.push_back({event.at("name").get<std::string>(), event.at("tid").get<int>(), begin,
                     begin + event.at("dur").get<double>()});
  }
  return spans;
}

std::map<std::string, int> CountsOf(const std::vector<Span>& spans) {
  std::map<std::string, int> counts;
  for (const Span& span : spans) ++counts[span.name];
  return counts;
}

TEST_CASE("each rank's trace holds every update, its phases and its buckets") {
  const ToyCorpus corpus;
  const TemporaryFolder folder;
  ToyRun run = MakeToyRun(corpus);
  run.ranks = 2;
  run.trainer.timeline = {.directory = folder.File("trace"), .on = true};
  run.trainer.checkpoint_dir = folder.File("ckpt");
  for (const ToyResult& result : TrainToy(run)) REQUIRE(result.message.empty());
  for (const int rank : {0, 1}) {
    const std::vector<Span> spans = SpansOf(TracePath(folder.File("trace"), rank));
    std::map<std::string, int> counts = CountsOf(spans);
    for (const char* name : {"step", "data", "exchange", "update", "forward", "backward"}) {
      INFO(name);
      CHECK(counts[name] == 5);
    }
    CHECK(counts["evaluation"] == 2);  // on the dev set, and at the end on the test set
    CHECK(counts["checkpoint"] == 1);
    CHECK(counts["bucket 0"] == 5);
    CHECK(counts["bucket 1"] == 5);
    const Span* step = nullptr;
    std::vector<Span> steps;
    for (const Span& span : spans) {
      if (span.name == "step") steps.push_back(span);
    }
    for (const Span& span : spans) {
      if (span.lane == kEvaluationLane || span.name == "step") continue;
      INFO(span.name);
      step = nullptr;
      for (const Span& candidate : steps) {
        if (candidate.begin <= span.begin && span.end <= candidate.end) step = &candidate;
      }
      CHECK(step != nullptr);
    }
  }
  const StatusOr<MergedTrace> merged =
      MergeTraces(folder.File("trace"), folder.File("merged.json"));
  REQUIRE(merged.ok());
  CHECK(merged->missing.empty());
}

// Spans of a name in the first communication lane, over both ranks of a run.
int CountTransfers(ToyRun run, const std::string& name) {
  const TemporaryFolder folder;
  run.ranks = 2;
  run.trainer.timeline = {.directory = folder.File("trace"), .on = true};
  for (const ToyResult& result : TrainToy(run)) REQUIRE(result.message.empty());
  int count = 0;
  for (const int rank : {0, 1}) {
    for (const Span& span : SpansOf(TracePath(folder.File("trace"), rank))) {
      count += span.name == name && span.lane == kCommunicationLane ? 1 : 0;
    }
  }
  return count;
}

TEST_CASE("weights that travel, at a round's end or from their shards, are in the trace") {
  const ToyCorpus corpus;
  ToyRun rounds = MakeToyRun(corpus);
  rounds.trainer.sync_every = 2;
  CHECK(CountTransfers(rounds, "weight mean") == 2 * 3);  // the last round is of one update
  ToyRun shards = MakeToyRun(corpus);
  shards.trainer.shard_optimizer = true;
  // Of more than one block, so that both ranks have a shard.
  shards.task.model.hidden_size = 64;
  shards.task.model.ffn_size = 200;
  CHECK(CountTransfers(shards, "weights") == 2 * 5);
}

TEST_CASE("a trace of fewer ranks takes the place of all files of the one before") {
  const ToyCorpus corpus;
  const TemporaryFolder folder;
  ToyRun run = MakeToyRun(corpus);
  run.trainer.max_steps = 1;
  run.trainer.timeline = {.directory = folder.File("trace"), .on = true};
  const std::string third = TracePath(folder.File("trace"), 2);
  const std::string copy = folder.File("trace/rank-00002 (copy).json");
  run.ranks = 3;
  for (const ToyResult& result : TrainToy(run)) REQUIRE(result.message.empty());
  REQUIRE(std::filesystem::exists(third));
  std::filesystem::copy_file(third, copy);
  run.ranks = 2;
  for (const ToyResult& result : TrainToy(run)) REQUIRE(result.message.empty());
  CHECK_FALSE(std::filesystem::exists(third));
  CHECK(std::filesystem::exists(copy));
  const StatusOr<MergedTrace> merged =
      MergeTraces(folder.File("trace"), folder.File("merged.json"));
  INFO(std::string(merged.status().message()));
  REQUIRE(merged.ok());
  CHECK(merged->ranks == 2);
  CHECK(merged->missing.empty());
}

TEST_CASE("a trace holds how far its rank's clock is ahead of the first one's") {
  const TemporaryFolder folder;
  for (const int rank : {0, 1, 2}) {
    int broadcasts = 0;
    // The offsets of all ranks come first.
    testing::ScriptedCommunicator comm(rank, {"a", "a", "b"}, [&](void* data, int64_t bytes) {
      constexpr double kOffsets[] = {0.0, 2.5, -0.75};
      if (++broadcasts > 1) return;
      REQUIRE(bytes == int64_t{sizeof(kOffsets)});
      std::memcpy(data, kOffsets, sizeof(kOffsets));
    });
    StepTimeline(comm, {.directory = folder.path()}).Start();
    const std::string trace = ReadTestFile(TracePath(folder.path(), rank));
    double microseconds = 1.0;
    for (const json& event : json::parse(trace)) {
      if (!event.contains("args") || !event["args"].contains("clock_offset_us")) continue;
      microseconds = event["args"]["clock_offset_us"].get<double>();
    }
    CHECK(microseconds == (rank == 0 ? 0.0 : rank == 1 ? 2.5e6 : -0.75e6));
  }
}

TEST_CASE("a request starts a trace in the middle of a run, and leaves the weights as they are") {
  const ToyCorpus corpus;
  const TemporaryFolder folder;
  ToyRun run = MakeToyRun(corpus);
  run.ranks = 2;
  const std::vector<float> plain = TrainToy(run)[0].weights;
  StopFlags flags;
  run.stop_flags = &flags;
  run.trainer.timeline.directory = folder.File("trace");
  run.before_update = [&](int64_t step, ParameterSet&) {
    if (step == 2) flags.timeline = true;
  };
  const std::vector<ToyResult> results = TrainToy(run);
  CHECK(results[0].weights == plain);
  CHECK(std::count(results[0].events.begin(), results[0].events.end(),
                   std::pair<int64_t, std::string>{3, "timeline"}) == 1);
  // Asked for in the third update, there from the fourth on.
  CHECK(CountsOf(SpansOf(TracePath(folder.File("trace"), 1)))["step"] == 2);
}

TEST_CASE("a folder that cannot be written ends the trace, not the training") {
  const ToyCorpus corpus;
  const TemporaryFolder folder;
  ToyRun run = MakeToyRun(corpus);
  run.trainer.timeline = {.directory = folder.Write("file", "") + "/trace", .on = true};
  CHECK(TrainToy(run)[0].reason == "max_steps");
}

TEST_CASE("what began in the trace before is not in a new one") {
  const TemporaryFolder folder;
  SelfCommunicator self;
  StepTimeline timeline(self, {.directory = folder.File("trace")});
  timeline.Start();
  const int64_t begin = Timeline::Now();
  timeline.Stop();
  timeline.Start();
  timeline.spans().Add("old", {.lane = kTensorLane, .begin = begin, .end = Timeline::Now()});
  { const Timeline::Span span(timeline.spans(), "new", kComputeLane); }
  timeline.Stop();
  CHECK(CountsOf(SpansOf(TracePath(folder.File("trace"), 0))) ==
        std::map<std::string, int>{{"new", 1}});
}

TEST_CASE("spans that had no room are told once, by their number") {
  const TemporaryFolder folder;
  SelfCommunicator self;
  std::string text;
  const LogSink previous =
      SetLogSink([&](LogLevel, std::string_view message) { text += std::string(message) + "\n"; });
  {
    StepTimeline timeline(self, {.directory = folder.File("trace")});
    timeline.Start();
    const size_t room = timeline.spans().capacity();
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < room + 3; ++i) {
        const Timeline::Span span(timeline.spans(), "work", kComputeLane);
      }
      timeline.EndUpdate();
    }
  }
  SetLogSink(previous);
  CHECK(text ==
        "3 spans of this rank's timeline are lost, as more than 16384 came between two "
        "updates\n");
}

}  // namespace
}  // namespace dtrain
