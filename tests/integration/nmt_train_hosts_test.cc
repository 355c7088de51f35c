// nmt_train_hosts_test.cc - one job on two hosts: trains the same, and ends when one is lost.
// SPDX-License-Identifier: Apache-2.0
//
// The hosts are namespaces of this machine (testing/two_hosts.sh), joined by a cable that the tests
// cut. Skipped with a word where namespaces are not allowed.
#include <memory>

#include "integration/two_hosts.h"

namespace dtrain {
namespace {

TEST_CASE("four ranks on two hosts train to the weights of four ranks on one") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  const ToyProgram one;
  REQUIRE(one.Run(4, one.Corpus()).exit_code == 0);
  // No flag beyond mpirun's own.
  const ToyProgram two;
  const Outcome outcome = RunCommand(hosts->Command(two, two.Corpus()));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(ReadTestFile(two.CheckpointFile(20)) == ReadTestFile(one.CheckpointFile(20)));
  CHECK_THAT(ReadTestFile(two.run_dir() + "/logs/rank-00003.log"),
             Catch::Contains("rank 3 of 4 on host b, "));
}

TEST_CASE(
    "hosts that both have Docker's bridge, with the same address, train without any setting") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  REQUIRE(RunCommand(hosts->Script("docker")).exit_code == 0);
  const ToyProgram toy;
  const Outcome outcome = RunCommand(hosts->Command(toy, toy.Corpus()));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK(toy.HasCheckpoint(20));
}

TEST_CASE("hosts whose own names mean 127.0.1.1 train") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  REQUIRE(RunCommand(hosts->Script("alias")).exit_code == 0);
  const ToyProgram toy;
  const Outcome outcome = RunCommand(hosts->Command(toy, toy.Corpus()));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("a network that the user chose is used, and named where it reaches nobody") {
  if (LacksOpenMpi("Open MPI's choice of networks, btl_tcp_if_include")) return;
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  REQUIRE(RunCommand(hosts->Script("docker")).exit_code == 0);
  const ToyProgram toy;
  const Timer timer;
  const Outcome outcome = RunCommand(hosts->Command(
      toy, toy.Corpus(),
      DTRAIN_TEST_MPIEXEC " --mca btl_tcp_if_include docker0 -x DTRAIN_COMM_TIMEOUT=10"));
  INFO(outcome.output);
  CHECK(outcome.exit_code != 0);
  CHECK(timer.Seconds() < 30);
  // Open MPI 5 notices by itself that the other end is another rank, and ends the job.
  if (outcome.output.find("prterun has exited") != std::string::npos) return;
  CHECK_THAT(outcome.output, Catch::Contains("MPI has not started within 10 s"));
  CHECK_THAT(outcome.output, Catch::Contains("eth0 10.77.0.1"));
  CHECK_THAT(outcome.output, Catch::Contains("docker0 172.17.0.1 (used only if named: "));
}

TEST_CASE("a rank killed on the second host ends the job on both hosts") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  LongRun run(*hosts);
  const std::vector<pid_t> ranks = hosts->RanksOn("b", run.toy());
  REQUIRE(ranks.size() == 2);
  REQUIRE(::kill(ranks[1], SIGKILL) == 0);
  run.CheckEnds(10);
}

TEST_CASE("a host without power ends the job") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  LongRun run(*hosts);
  REQUIRE(RunCommand(hosts->Script("kill") + " b").exit_code == 0);
  run.CheckEnds(10);
}

TEST_CASE("a cut cable ends the job on both hosts") {
  if (LacksOpenMpi("keep-alive messages of the launcher, which contrib/dtrain-mpirun sets")) return;
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  LongRun run(*hosts, "", DTRAIN_TEST_LAUNCHER);
  REQUIRE(RunCommand(hosts->Script("cut")).exit_code == 0);
  run.CheckEnds(15);
}

TEST_CASE("a cable that is cut for three seconds and a slow one only make the job slower") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  const ToyProgram plain;
  const std::string steps = " trainer.max_steps=100";
  REQUIRE(RunCommand(hosts->Command(plain, plain.Corpus() + steps)).exit_code == 0);
  const ToyProgram toy;
  REQUIRE(RunCommand(hosts->Script("rate") + " 2mbit").exit_code == 0);
  Job job("exec " + hosts->Command(toy, toy.Corpus() + steps));
  REQUIRE(WaitUntil([&] { return toy.HasCheckpoint(10); }, 60));
  REQUIRE(RunCommand(hosts->Script("cut")).exit_code == 0);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  REQUIRE(RunCommand(hosts->Script("heal")).exit_code == 0);
  REQUIRE(RunCommand(hosts->Script("rate") + " off").exit_code == 0);
  const Outcome outcome = job.Wait();
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK(ReadTestFile(toy.CheckpointFile(100)) == ReadTestFile(plain.CheckpointFile(100)));
}

}  // namespace
}  // namespace dtrain
