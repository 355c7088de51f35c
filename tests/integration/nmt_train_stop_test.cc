// nmt_train_stop_test.cc - killed, stopped and started again, nmt_train loses nothing.
// SPDX-License-Identifier: Apache-2.0
#include "integration/nmt_train_program.h"

namespace dtrain {
namespace {

constexpr int kSteps = 1500;

std::string LongRun(const ToyProgram& toy, int steps = kSteps) {
  return toy.Corpus() + " trainer.checkpoint_every=100u trainer.keep_last=20 trainer.max_steps=" +
         std::to_string(steps);
}

// The weights of a run that nobody stops.
std::string WholeRun(int ranks, const std::string& more = "") {
  const ToyProgram toy;
  const Outcome outcome = toy.Run(ranks, LongRun(toy) + more);
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  return ReadTestFile(toy.run_dir() + "/ckpt/last/model.safetensors");
}

TEST_CASE("a killed rank ends the job, and the same command ends with the same bits") {
  const std::string whole = WholeRun(2);
  CHECK(whole.size() > 10000);
  for (const size_t victim : {0u, 1u}) {
    INFO("rank " << victim);
    const ToyProgram toy;
    const std::string command = toy.Command(2, LongRun(toy));
    {
      Job job("exec " + command);
      REQUIRE(WaitUntil([&] { return toy.HasCheckpoint(200); }, 60));
      const std::vector<pid_t> ranks = job.Ranks();
      REQUIRE(ranks.size() == 2);
      REQUIRE(::kill(ranks[victim], SIGKILL) == 0);
      const Timer timer;
      const Outcome outcome = job.Wait(20);
      INFO(outcome.output);
      CHECK(outcome.exit_code != 0);
      CHECK(WaitUntil([&] { return CountProcesses(toy.run_dir()) == 0; }, 10));
      CHECK(timer.Seconds() < 10);
    }
    REQUIRE_FALSE(toy.HasCheckpoint(kSteps));
    const Outcome again = RunCommand(command);
    INFO(again.output);
    CHECK(again.exit_code == 0);
    CHECK_THAT(toy.Log(), Catch::Contains("going on from " + toy.run_dir() + "/ckpt/step-00000"));
    CHECK(ReadTestFile(toy.CheckpointFile(kSteps)) == whole);
  }
}

TEST_CASE("the same command twice gives the same file") {
  CHECK(WholeRun(2) == WholeRun(2));
  const std::string threads = " run.threads=2 model.hidden_size=128 trainer.max_steps=40";
  CHECK(WholeRun(1, threads) == WholeRun(1, threads));
}

TEST_CASE("SIGUSR1 to mpirun writes a checkpoint and the run goes on") {
  const ToyProgram toy;
  Job job("exec " + toy.Command(2, LongRun(toy, 8000) + " trainer.checkpoint_every=1000u"));
  REQUIRE(WaitUntil([&] { return toy.HasCheckpoint(1000); }, 60));
  job.Signal(SIGUSR1);
  const Outcome outcome = job.Wait();
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK(toy.HasCheckpoint(8000));
  const std::string events = ReadTestFile(toy.run_dir() + "/metrics/events.jsonl");
  INFO(events);
  CHECK(CountOf(events, "\"start\"") == 1);
  CHECK(CountOf(events, "\"checkpoint\"") == 9);  // the request and each thousand
}

TEST_CASE("SIGUSR2 to mpirun begins a timeline of all ranks, and the next one ends it") {
  const std::string whole = WholeRun(2, " trainer.max_steps=3000");
  const ToyProgram toy;
  Job job("exec " + toy.Command(2, LongRun(toy, 3000)));
  REQUIRE(WaitUntil([&] { return toy.HasCheckpoint(100); }, 60));
  const auto trace = [&](const char* rank) {
    return ReadTestFile(toy.run_dir() + "/trace/rank-0000" + rank + ".json");
  };
  CHECK(trace("0").empty());
  job.Signal(SIGUSR2);
  CHECK(WaitUntil([&] { return trace("0").size() > 1000 && trace("1").size() > 1000; }, 30));
  job.Signal(SIGUSR2);
  const Outcome outcome = job.Wait();
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  for (const char* const rank : {"0", "1"}) {
    const std::string text = trace(rank);
    CHECK_THAT(text, Catch::Contains("\"bucket 0\"") && Catch::Contains("\"backward\"") &&
                         Catch::Contains("\"step\""));
    // It was begun and ended in the middle of the run.
    CHECK(CountOf(text, "\"step\"") < 3000 - 100);
  }
  CHECK(ReadTestFile(toy.CheckpointFile(3000)) == whole);
}

TEST_CASE("SIGTERM ends with exit code 75, and the same command goes on to the same bits") {
  const std::string whole = WholeRun(1);
  const ToyProgram toy;
  const std::string command = toy.Command(1, LongRun(toy));
  {
    Job job("exec " + command);
    REQUIRE(WaitUntil([&] { return toy.HasCheckpoint(100); }, 60));
    job.Signal(SIGTERM);
    const Outcome outcome = job.Wait(20);
    INFO(outcome.output);
    CHECK(outcome.exit_code == 75);
    CHECK_THAT(outcome.output, Catch::Contains("dtrain: stopped: stopped on request at step ") &&
                                   Catch::Contains("the same command goes on from there"));
    CHECK_THAT(ReadTestFile(toy.run_dir() + "/STATUS"),
               Catch::Contains("state stopped\nexit_code 75\n"));
  }
  REQUIRE_FALSE(toy.HasCheckpoint(kSteps));
  const Outcome again = RunCommand(command);
  INFO(again.output);
  CHECK(again.exit_code == 0);
  CHECK(ReadTestFile(toy.CheckpointFile(kSteps)) == whole);
}

TEST_CASE("signals at any moment of the products on a CPU harm nothing") {
  const ToyProgram toy;
  Job job("exec " + toy.Command(1, LongRun(toy) + " model.hidden_size=256 model.num_heads=4"));
  REQUIRE(WaitUntil([&] { return toy.HasCheckpoint(100); }, 60));
  for (int i = 0; i < 40; ++i) {
    job.Signal(SIGUSR2);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  job.Signal(SIGHUP);
  const Outcome outcome = job.Wait(30);
  INFO(outcome.output);
  CHECK(outcome.exit_code == 75);
}

TEST_CASE("a prepared file that becomes shorter under a run is named") {
  for (const int ranks : {1, 2}) {
    const ToyProgram toy;
    Job job("exec " + toy.Command(ranks, LongRun(toy, 100000)));
    REQUIRE(WaitUntil([&] { return toy.HasCheckpoint(100); }, 60));
    const std::string file = toy.run_dir() + "/data/train.bin";
    std::filesystem::resize_file(file, 0);
    const Outcome outcome = job.Wait(20);
    INFO(outcome.output);
    CHECK(outcome.exit_code == 7);
    CHECK_THAT(outcome.output, Catch::Contains("dtrain: error[E7]: " + file + ": became shorter"));
  }
}

TEST_CASE("SIGTERM to one rank stops all ranks at the same update") {
  const ToyProgram toy;
  Job job("exec " + toy.Command(2, LongRun(toy, 100000)));
  REQUIRE(WaitUntil([&] { return toy.HasCheckpoint(100); }, 60));
  ::kill(job.Ranks().at(1), SIGTERM);
  const Outcome outcome = job.Wait(20);
  INFO(outcome.output);
  CHECK(outcome.exit_code == 75);
  CHECK(CountOf(outcome.output, "dtrain: stopped: ") == 1);
  CHECK(WaitUntil([&] { return CountProcesses(toy.run_dir()) == 0; }, 10));
}

}  // namespace
}  // namespace dtrain
