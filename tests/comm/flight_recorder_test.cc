// flight_recorder_test.cc - where the last collectives are written, when, and by whom.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/flight_recorder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "dtrain/base/log.h"
#include "dtrain/comm/flight_records.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/comm/internal/heartbeat_service.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"
#include "testing/scripted_communicator.h"

namespace dtrain::internal {
namespace {

using Catch::Contains;

// Records are told in warnings, which are not the tests' business.
class Quiet {
 public:
  Quiet() = default;
  ~Quiet() { SetLogSink(previous_); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  LogSink previous_ = SetLogSink([](LogLevel, std::string_view) {});
};

TEST_CASE("the records of a rank are written to the directory set last, each of them once") {
  const Quiet quiet;
  const TemporaryFolder first;
  const TemporaryFolder second;
  const auto records = std::make_shared<FlightRecords>("");
  FlightRecorder all(records, {.rank = 2, .host = "a"});
  FlightRecorder group(records, {.rank = 2, .host = "a", .group = 1});
  std::optional<FlightRecorder> gone;
  gone.emplace(records, FlightRecorder::Owner{.rank = 2, .host = "a", .group = 3});
  gone.reset();
  all.Begin(0, "AllReduce", 40);
  group.Begin(0, "Barrier", 0);
  CHECK(all.Dump("there is no directory") == "");
  records->SetDefaultDirectory(first.path());
  records->SetDefaultDirectory(second.path());
  CHECK(all.Dump("one alone") == second.File("collectives-rank-00002.jsonl"));
  records->DumpAll("all of them");
  CHECK_THAT(ReadTestFile(second.File("collectives-rank-00002.jsonl")),
             Contains("one alone") && Contains("AllReduce"));
  CHECK_THAT(ReadTestFile(second.File("collectives-rank-00002-group-1.jsonl")),
             Contains("all of them") && Contains("Barrier"));
  CHECK_FALSE(std::filesystem::exists(second.File("collectives-rank-00002-group-3.jsonl")));
  CHECK(std::filesystem::is_empty(first.path()));
}

TEST_CASE("a directory set later holds for groups made before, and the options' comes first") {
  const Quiet quiet;
  for (const bool has_option : {false, true}) {
    INFO(has_option);
    const TemporaryFolder of_options;
    const TemporaryFolder later;
    testing::RunRanks(2,
                      [&](Communicator& comm) {
                        const auto group = comm.Split(0);
                        RecordsOf(comm)->SetDefaultDirectory(later.path());
                        if (comm.rank() == 1) return;
                        try {
                          group->Barrier();
                        } catch (const CommError&) {  // rank 1 does not come
                        }
                      },
                      {.timeout_seconds = 0.2,
                       .record_directory = has_option ? of_options.path() : std::string()});
    const TemporaryFolder& expected = has_option ? of_options : later;
    CHECK(std::filesystem::exists(expected.File("collectives-rank-00000-group-1.jsonl")));
    CHECK(std::filesystem::is_empty(has_option ? later.path() : of_options.path()));
  }
}

TEST_CASE("a record that another thread writes while collectives go on has whole lines") {
  const Quiet quiet;
  const TemporaryFolder folder;
  const auto records = std::make_shared<FlightRecords>(folder.path());
  FlightRecorder recorder(records, {.rank = 0, .host = "a"});
  for (int64_t i = 0; i < 2000; ++i) recorder.Begin(i, "AllReduce", 4);
  std::atomic<bool> end = false;
  std::thread trains([&] {
    for (int64_t i = 2000; !end; ++i) {
      recorder.Begin(i, "AllReduce", 4);
      recorder.End(i);
    }
  });
  records->DumpAll("stuck");
  end = true;
  trains.join();
  std::istringstream file(ReadTestFile(folder.File("collectives-rank-00000.jsonl")));
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    CHECK_THAT(line, Catch::StartsWith("{") && Catch::EndsWith("}"));
  }
  CHECK(lines == 1025);
}

// Two ranks in one process that begin other collectives and never come back to them.
[[noreturn]] void RunStuckRanks(const std::string& directory) {
  const Quiet quiet;
  std::vector<char> meeting;
  std::vector<std::unique_ptr<Communicator>> worlds;
  std::vector<std::unique_ptr<FlightRecorder>> recorders;
  std::vector<std::unique_ptr<HeartbeatService>> beats;
  for (const int rank : {0, 1}) {
    const auto on_broadcast = [&meeting, rank](void* data, int64_t bytes) {
      auto* const chars = static_cast<char*>(data);
      if (rank == 0) meeting.assign(chars, chars + bytes);
      std::memcpy(chars, meeting.data(), meeting.size());
    };
    worlds.push_back(std::make_unique<testing::ScriptedCommunicator>(
        rank, std::vector<std::string>(2, "a"), on_broadcast));
    Communicator& world = *worlds.back();
    RecordsOf(world)->SetDefaultDirectory(directory);
    recorders.push_back(std::make_unique<FlightRecorder>(
        RecordsOf(world), FlightRecorder::Owner{.rank = rank, .host = "a"}));
    const char* const name = rank == 0 ? "AllReduce" : "Barrier";
    recorders.back()->Begin(0, name, 40);
    HeartbeatOf(world)->BeginCollective(name, 40);
    beats.push_back(HeartbeatService::Start(world, {.timeout_seconds = 120, .slow_seconds = 0.1}));
  }
  std::this_thread::sleep_for(std::chrono::seconds(30));
  std::_Exit(0);
}

TEST_CASE("a rank whose heartbeat ends it leaves its record") {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) RunStuckRanks(folder.path());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 6);
  // The first of the two ends the process.
  CHECK_THAT(ReadTestFile(folder.File("collectives-rank-00000.jsonl")) +
                 ReadTestFile(folder.File("collectives-rank-00001.jsonl")),
             Contains("the ranks are out of step") && Contains("\"bytes\": 40"));
}

}  // namespace
}  // namespace dtrain::internal
