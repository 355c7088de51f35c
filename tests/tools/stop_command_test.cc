// stop_command_test.cc - `dtrain stop` ends a run with a checkpoint, and harms nothing else.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <filesystem>
#include <string>

#include "dtrain/base/host.h"
#include "testing/catch.h"
#include "tools/tiny_run.h"

namespace dtrain {
namespace {

// A run that would take hours, on so many ranks.
std::string LongRun(int ranks, const std::string& directory) {
  const TinyRun& tiny = TinyRun::Get();
  return CommandOn(ranks, DTRAIN_TEST_NMT_TRAIN " --config=" + tiny.run +
                              "/config.textproto run.run_dir=" + directory +
                              " trainer.max_steps=1000000 run.progress=none");
}

void WriteStatus(const std::string& directory, const std::string& host, const std::string& pid) {
  std::filesystem::create_directories(directory);
  WriteTestFile(directory + "/STATUS", "state running\nexit_code 0\nstep 7\nhost " + host +
                                           "\npid " + pid + "\nheartbeat x\n");
}

TEST_CASE("a run that is asked to stop writes a checkpoint on all ranks and ends") {
  const int ranks = GENERATE(1, 2);
  const std::string run = TinyRun::Get().Path("long" + std::to_string(ranks));
  Job job("exec " + LongRun(ranks, run));
  REQUIRE(WaitUntil(
      [&] { return ReadTestFile(run + "/STATUS").find("state running") != std::string::npos; },
      60));
  const Outcome stopped = Tool("stop " + run);
  INFO(stopped.output);
  CHECK(stopped.exit_code == 0);
  CHECK_THAT(stopped.output, Catch::Contains(run + ": stopped at step "));
  CHECK_THAT(ReadTestFile(run + "/STATUS"), Catch::Contains("state stopped\nexit_code 75\n"));
  CHECK(std::filesystem::exists(run + "/ckpt/last/COMPLETE"));
  const Outcome trained = job.Wait(20);
  if (ranks == 1) CHECK(trained.exit_code == 75);

  const Outcome again = Tool("stop " + run);
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.output, Catch::Contains("nothing trains there; the last run is stopped at"));
}

TEST_CASE("a run that was killed, runs elsewhere or is none is not signalled") {
  const std::string run = TinyRun::Get().Path("states");
  // The number of a process that has nothing to do with the run: this test.
  WriteStatus(run, HostName(), std::to_string(::getpid()));
  const Outcome killed = Tool("stop " + run);
  CHECK(killed.exit_code == 0);
  CHECK_THAT(killed.output, Catch::Contains("the last run is killed at step 7"));

  WriteStatus(run, "elsewhere", "4711");
  const Outcome remote = Tool("stop " + run);
  CHECK(remote.exit_code == 2);
  CHECK_THAT(remote.output, Catch::Contains("ssh elsewhere kill -TERM 4711"));

  const Outcome none = Tool("stop " + TinyRun::Get().Path("nowhere"));
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.output, Catch::Contains("is no run directory"));
  CHECK(Tool("stop").exit_code == 2);
}

}  // namespace
}  // namespace dtrain
