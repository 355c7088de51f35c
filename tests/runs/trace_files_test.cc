// trace_files_test.cc - files that parse at any time, overlapping buckets, merging, damage.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/trace_files.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "testing/file_testing.h"

namespace dtrain {
namespace {

using nlohmann::json;

TimelineSpan Named(const std::string& name, TimelineSpan span) {
  std::copy(name.begin(), name.end(), span.name.begin());
  return span;
}

void WriteTrace(const std::string& folder, const TraceHeader& header,
                const std::vector<TimelineSpan>& spans) {
  StatusOr<TraceFile> file = TraceFile::Create(TracePath(folder, header.rank), header);
  REQUIRE(file.ok());
  REQUIRE(file->Append(spans).ok());
}

// The timed events of a trace.
std::vector<json> EventsOf(const json& trace) {
  std::vector<json> events;
  for (const json& event : trace) {
    if (event.at("ph") == "X") events.push_back(event);
  }
  return events;
}

TEST_CASE("a trace is whole JSON after each append, with the fields that Perfetto reads") {
  const TemporaryFolder folder;
  const std::string path = TracePath(folder.path(), 3);
  CHECK(path == folder.File("rank-00003.json"));
  StatusOr<TraceFile> file =
      TraceFile::Create(path, {.rank = 3, .ranks = 4, .host = "node \"7\"", .started = 5});
  REQUIRE(file.ok());
  CHECK(EventsOf(json::parse(ReadTestFile(path))).empty());
  for (int64_t i = 0; i < 3; ++i) {
    const std::vector<TimelineSpan> spans = {
        Named("step",
              {.lane = kComputeLane, .begin = 1000007 * i, .end = 1000007 * i + 5, .index = i}),
        Named("bucket 0", {.lane = kCommunicationLane, .begin = 9000, .end = 12034, .bytes = 64}),
        Named("both", {.lane = kComputeLane, .index = 2, .bytes = 3})};
    REQUIRE(file->Append(spans).ok());
    CHECK(EventsOf(json::parse(ReadTestFile(path))).size() == static_cast<size_t>(3 * (i + 1)));
  }
  const json trace = json::parse(ReadTestFile(path));
  int names = 0;
  for (const json& event : trace) {
    CHECK(event.at("pid") == 3);
    CHECK(event.at("tid").is_number_integer());
    CHECK(event.at("name").is_string());
    if (event.at("ph") == "M") {
      names += event.at("name") == "thread_name" || event.at("name") == "process_name" ? 1 : 0;
      continue;
    }
    CHECK(event.at("ts").is_number());
    CHECK(event.at("dur").get<double>() >= 0);
  }
  // The process, compute, and two of communication: the buckets overlap from the second on.
  CHECK(names == 5);
  const std::vector<json> events = EventsOf(trace);
  CHECK(events[1].at("ts").get<double>() == 9.0);
  CHECK(events[1].at("dur").get<double>() == 3.034);
  CHECK(events[1].at("args").at("bytes") == 64);
  CHECK(events[2].at("args") == json({{"index", 2}, {"bytes", 3}}));
  CHECK(events[3].at("ts").get<double>() == 1000.007);
}

TEST_CASE("exchanges that overlap get lanes of their own") {
  const TemporaryFolder folder;
  const auto bucket = [](int64_t begin, int64_t end) {
    return TimelineSpan{.lane = kCommunicationLane, .begin = begin, .end = end};
  };
  WriteTrace(folder.path(), {}, {bucket(0, 10), bucket(5, 20), bucket(10, 30), bucket(25, 40)});
  std::vector<int> lanes;
  for (const json& event : EventsOf(json::parse(ReadTestFile(TracePath(folder.path(), 0))))) {
    lanes.push_back(event.at("tid").get<int>());
  }
  CHECK(lanes == std::vector<int>{3, 4, 3, 4});
}

TEST_CASE("tensors' names of whatever bytes stay JSON, in lanes beside the exchanges'") {
  const TemporaryFolder folder;
  const auto tensor = [](const std::string& name) {
    return Named(name, {.lane = kTensorLane, .begin = 0, .end = 10});
  };
  WriteTrace(folder.path(), {.ranks = 1},
             {tensor("a \"b\\\n"), tensor("\xff"),
              Named("all-reduce", {.lane = kCommunicationLane, .begin = 5, .end = 10})});
  REQUIRE(MergeTraces(folder.path(), folder.File("out.json")).ok());
  const json merged = json::parse(ReadTestFile(folder.File("out.json")));
  const std::vector<json> events = EventsOf(merged);
  REQUIRE(events.size() == 3);
  CHECK(events[0].at("tid") == kTensorLane);
  CHECK(events[1].at("tid") == kTensorLane + 1);
  CHECK(events[2].at("tid") == kCommunicationLane);
  CHECK(events[0].at("name") == "a \"b\\\n");
  CHECK(events[1].at("name") == "\uFFFD");
  std::vector<std::string> lanes;
  for (const json& event : merged) {
    if (event.at("name") == "thread_name") lanes.push_back(event.at("args").at("name"));
  }
  CHECK(lanes == std::vector<std::string>{"tensors", "tensors 2", "communication"});
}

TEST_CASE("merged traces lie on the first rank's clock, from zero on") {
  const TemporaryFolder folder;
  const auto write = [&](int rank, double ahead, int64_t begin, int64_t end) {
    WriteTrace(folder.path(),
               {.rank = rank, .ranks = 3, .host = "a", .clock_offset = ahead, .started = 42},
               {Named("step", {.lane = kComputeLane, .begin = begin, .end = end})});
  };
  const int64_t second = 1000000000;
  write(0, 0.0, 7 * second, 8 * second);
  write(2, 5.0, 12 * second + 1500, 13 * second);
  const std::string output = folder.File("out.json");
  const StatusOr<MergedTrace> merged = MergeTraces(folder.path(), output);
  REQUIRE(merged.ok());
  CHECK(merged->ranks == 3);
  CHECK(merged->missing == std::vector<int>{1});
  CHECK(merged->events == 2);
  const std::vector<json> events = EventsOf(json::parse(ReadTestFile(output)));
  REQUIRE(events.size() == 2);
  CHECK(events[0].at("ts").get<double>() == 0.0);
  CHECK(events[1].at("ts").get<double>() == 1.5);
  CHECK(events[1].at("pid") == 2);
  CHECK(events[0].at("dur").get<double>() == 1e6);
}

TEST_CASE("a folder without traces, damage, and traces of two runs are refused by name") {
  const TemporaryFolder folder;
  const auto fails = [&](const std::string& why, ExitCode code = ExitCode::kStorage) {
    const Status status = MergeTraces(folder.path(), folder.File("out.json")).status();
    CHECK(status.code() == code);
    CHECK_THAT(std::string(status.message()), Catch::Contains(why));
    CHECK_FALSE(std::filesystem::exists(folder.File("out.json")));
  };
  fails("has no rank-*.json", ExitCode::kUsage);
  WriteTrace(folder.path(), {.rank = 0, .ranks = 2, .started = 1}, {TimelineSpan{}});
  WriteTrace(folder.path(), {.rank = 1, .ranks = 2, .started = 2}, {TimelineSpan{}});
  fails("rank-00001.json: belongs to another trace than");
  WriteTrace(folder.path(), {.rank = 1, .ranks = 2, .started = 1}, {TimelineSpan{}});
  const std::string whole = ReadTestFile(TracePath(folder.path(), 1));
  WriteTestFile(TracePath(folder.path(), 1), whole.substr(0, whole.size() - 8));
  fails("rank-00001.json:7: the trace is damaged");
  WriteTestFile(TracePath(folder.path(), 1), "[\n{\"name\": \"x\"}\n]\n");
  fails("is not a trace of dtrain");
}

TEST_CASE("a merge neither takes copies of traces nor overwrites one of them") {
  const TemporaryFolder folder;
  for (int rank = 0; rank < 2; ++rank) {
    WriteTrace(folder.path(), {.rank = rank, .ranks = 2, .host = "a", .started = 5},
               {Named("step", {.lane = kComputeLane, .begin = 10, .end = 20})});
  }
  const std::string trace = ReadTestFile(TracePath(folder.path(), 1));
  folder.Write("rank-00001 (copy).json", trace);
  const auto merged = MergeTraces(folder.path(), folder.File("merged.json"));
  REQUIRE(merged.ok());
  CHECK(merged->events == 2);
  const Status over = MergeTraces(folder.path(), TracePath(folder.path(), 1)).status();
  CHECK(over.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(over.message()), Catch::Contains("one of the traces to merge"));
  CHECK(ReadTestFile(TracePath(folder.path(), 1)) == trace);
  // Under another rank's name.
  folder.Write("rank-00000.json", trace);
  const Status foreign = MergeTraces(folder.path(), folder.File("merged.json")).status();
  CHECK(foreign.code() == ExitCode::kStorage);
  CHECK_THAT(std::string(foreign.message()),
             Catch::Contains("rank-00000.json: its header is that of rank 1"));
}

}  // namespace
}  // namespace dtrain
