// nmt_train_faults_test.cc - ranks that stop, leave, differ or are slow, on two hosts.
// SPDX-License-Identifier: Apache-2.0
//
// Skipped with a word where namespaces are not allowed.
#include "integration/two_hosts.h"

namespace dtrain {
namespace {

using Catch::Contains;

// Files of dtrain in a host's /dev/shm.
std::string SharedMemoryOn(const TwoHosts& hosts, const std::string& host) {
  return RunCommand(hosts.Script("on") + " " + host + " find /dev/shm -name '*dtrain*'").output;
}

TEST_CASE("a stopped rank on the second host is named with what it did, and the job ends") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  LongRun run(*hosts, "run.comm_timeout=8s");
  const std::vector<pid_t> ranks = hosts->RanksOn("b", run.toy());
  REQUIRE(ranks.size() == 2);
  REQUIRE(::kill(ranks[0], SIGSTOP) == 0);
  const Timer timer;
  const auto log = [&](int rank) {
    return ReadTestFile(run.toy().run_dir() + "/logs/rank-0000" + std::to_string(rank) + ".log");
  };
  // With the default time-out the name comes after 5 s, with this one after 2.
  for (const int rank : {0, 1, 3}) {
    INFO("rank " << rank);
    CHECK(WaitUntil([&] { return log(rank).find("is silent") != std::string::npos; }, 10));
    CHECK_THAT(log(rank), Contains("rank 2 (host b, process ") && Contains("at step ") &&
                              Contains(" collective number "));
  }
  WARN("named on all ranks after " << timer.Seconds() << " s");
  const Outcome outcome = run.CheckEnds(20);
  WARN("ended " << timer.Seconds() << " s after the stop");
  CHECK(outcome.exit_code == 6);
  CHECK_THAT(outcome.output, Contains("dtrain: error[E6]: ") && Contains("rank 2 (host b, ") &&
                                 Contains("has been silent for"));
  CHECK_THAT(ReadTestFile(run.toy().run_dir() + "/STATUS"),
             Contains("state failed\nexit_code 6\n"));
  for (const char* const rank : {"0", "1", "3"}) {
    INFO("rank " << rank);
    CHECK_THAT(ReadTestFile(run.toy().run_dir() + "/logs/collectives-rank-0000" + rank + ".jsonl"),
               Contains("has been silent for") && Contains("\"collective\": \"AllReduce\""));
  }
}

TEST_CASE("a rank that stands still for a while is named, and the run goes on") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  LongRun run(*hosts, "run.comm_timeout=12s");
  const std::vector<pid_t> ranks = hosts->RanksOn("b", run.toy());
  REQUIRE(ranks.size() == 2);
  REQUIRE(::kill(ranks[1], SIGSTOP) == 0);
  CHECK(WaitUntil([&] { return run.toy().Log().find("is silent") != std::string::npos; }, 7));
  REQUIRE(::kill(ranks[1], SIGCONT) == 0);
  CHECK(WaitUntil([&] { return run.toy().Log().find("rank 3 is back") != std::string::npos; }, 20));
  const auto checkpoints = [&] { return CountOf(run.toy().Log(), "checkpoint @"); };
  const size_t before = checkpoints();
  CHECK(WaitUntil([&] { return checkpoints() > before; }, 30));
}

TEST_CASE("a rank that makes every step longer is named, and the run goes on") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  // Updates that take so long that checkpoints, whose waits do not count, are a small part.
  LongRun run(*hosts, "run.comm_timeout=30s trainer.tokens_per_batch=1500 model.hidden_size=128");
  const std::vector<pid_t> ranks = hosts->RanksOn("b", run.toy());
  REQUIRE(ranks.size() == 2);
  // Rank 2 sleeps for nine tenths of the time, shorter each time than a heartbeat may fail to come.
  const Timer timer;
  const auto is_named = [&] {
    return run.toy().Log().find("a part of each step, for rank 2 (host b, ") != std::string::npos;
  };
  while (!is_named() && timer.Seconds() < 60) {
    REQUIRE(::kill(ranks[0], SIGSTOP) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
    REQUIRE(::kill(ranks[0], SIGCONT) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  WARN("named after " << timer.Seconds() << " s");
  CHECK(is_named());
  const auto checkpoints = [&] { return CountOf(run.toy().Log(), "checkpoint @"); };
  const size_t before = checkpoints();
  CHECK(WaitUntil([&] { return checkpoints() > before; }, 30));
}

TEST_CASE("on a cut cable the ranks of both hosts end by themselves") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  // Plain mpirun, which does not notice for minutes.
  LongRun run(*hosts, "run.comm_timeout=8s");
  REQUIRE(hosts->RanksOn("a", run.toy()).size() == 2);
  REQUIRE(hosts->RanksOn("b", run.toy()).size() == 2);
  REQUIRE(RunCommand(hosts->Script("cut")).exit_code == 0);
  const Timer timer;
  CHECK(WaitUntil(
      [&] {
        return hosts->RanksOn("a", run.toy()).empty() && hosts->RanksOn("b", run.toy()).empty();
      },
      25));
  WARN("the last rank was gone after " << timer.Seconds() << " s");
}

TEST_CASE("a killed rank leaves no shared memory, and its run goes on elsewhere") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  LongRun run(*hosts);
  const std::vector<pid_t> ranks = hosts->RanksOn("b", run.toy());
  REQUIRE(ranks.size() == 2);
  REQUIRE(::kill(ranks[0], SIGKILL) == 0);
  run.CheckEnds(15);
  CHECK(SharedMemoryOn(*hosts, "a").empty());
  CHECK(SharedMemoryOn(*hosts, "b").empty());
  // From the last checkpoint of four ranks on two hosts: with two and with three on one.
  for (const int ranks_here : {2, 3}) {
    const Outcome outcome = run.toy().Run(ranks_here, run.toy().Corpus() + " trainer.max_time=1s");
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
  CHECK_THAT(run.toy().Log(), Contains("going on from "));
}

TEST_CASE("hosts with another configuration or another build are named before anything is made") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  const ToyProgram toy;
  const auto on = [&](const std::string& host, const std::string& command) {
    const Outcome outcome =
        RunCommand(hosts->Script("on") + " " + host + " sh -c '" + command + "'");
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
  };
  // /dev/shm is a host's own.
  on("a", "echo \"optimizer { learning_rate: 0.1 }\" >/dev/shm/c.textproto");
  on("b", "echo \"optimizer { learning_rate: 0.2 }\" >/dev/shm/c.textproto");
  CheckFailed(RunCommand(hosts->Command(toy, toy.Corpus() + " --config=/dev/shm/c.textproto")), 2,
              {"the ranks disagree on configuration", "ranks 0, 1 (host a): ", "learning_rate: 0.1",
               "ranks 2, 3 (host b): ", "learning_rate: 0.2"});

  // The same program but for the text of its version.
  std::istringstream version_line(RunCommand(DTRAIN_TEST_PROGRAM " --version").output);
  std::string name;
  std::string version;
  version_line >> name >> version;
  REQUIRE(version.size() > 2);
  std::string other = version;
  other.back() = other.back() == 'x' ? 'y' : 'x';
  for (const char* const host : {"a", "b"}) on(host, "cp " DTRAIN_TEST_PROGRAM " /dev/shm/p");
  on("b", "sed -i s/" + version + "/" + other + "/ /dev/shm/p");
  const Outcome outcome = RunCommand(hosts->OnBoth() + "/dev/shm/p " + toy.Arguments(toy.Corpus()));
  CheckFailed(outcome, 2,
              {"the ranks disagree on version", "ranks 0, 1 (host a): " + version,
               "ranks 2, 3 (host b): " + other});
  CHECK_FALSE(std::filesystem::exists(toy.run_dir()));
}

TEST_CASE("a second job in a run directory is refused, also from the other host") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  LongRun run(*hosts);
  const Outcome second = RunCommand(hosts->Script("on") + " b " + DTRAIN_TEST_PROGRAM " " +
                                    run.toy().Arguments(run.toy().Corpus()));
  CheckFailed(second, 2, {"another process is training in this folder"});
}

TEST_CASE("SIGTERM to a rank on the second host stops all ranks with a checkpoint") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  LongRun run(*hosts);
  const std::vector<pid_t> ranks = hosts->RanksOn("b", run.toy());
  REQUIRE(ranks.size() == 2);
  REQUIRE(::kill(ranks[1], SIGTERM) == 0);
  const Outcome outcome = run.CheckEnds(20);
  CHECK(outcome.exit_code == 75);
  CHECK(CountOf(outcome.output, "dtrain: stopped: ") == 1);
}

}  // namespace
}  // namespace dtrain
