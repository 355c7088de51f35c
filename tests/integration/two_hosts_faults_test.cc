// two_hosts_faults_test.cc - faults before and beside training, and many collectives, on two hosts.
// SPDX-License-Identifier: Apache-2.0
//
// Skipped with a word where namespaces are not allowed.
#include "integration/two_hosts.h"

namespace dtrain {
namespace {

using Catch::Contains;

// job_end_program.cc with ranks 0 and 1 on host a, 2 and 3 on host b, whose rank 3 fails in that
// way. `before` goes in front of mpirun.
Outcome FailOnTheSecondHost(const std::string& way, const std::string& before = "") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return {.exit_code = 77, .output = "", .seconds = 0};
  const Timer timer;
  Outcome outcome =
      RunCommand(hosts->OnBoth(before + " " DTRAIN_TEST_MPIEXEC) +
                 "env DTRAIN_COMM_TIMEOUT=4 " DTRAIN_TEST_JOB_PROGRAM " " + way + " 3");
  WARN(way << ": the job was over after " << timer.Seconds() << " s");
  CHECK(WaitUntil([] { return CountProcesses(DTRAIN_TEST_JOB_PROGRAM) == 0; }, 10));
  CHECK(timer.Seconds() < 20);
  return outcome;
}

TEST_CASE("a rank that is stopped before MPI is up ends the job on both hosts with code 6") {
  const Outcome outcome = FailOnTheSecondHost("stop_first");
  if (outcome.exit_code == 77) return;
  INFO(outcome.output);
  CHECK(outcome.exit_code == 6);
  CHECK_THAT(outcome.output, Contains("MPI has not started within 4 s"));
}

TEST_CASE("a rank that leaves before MPI is up ends the job on both hosts") {
  // Of ten times one, Open MPI 4.1's mpirun stays where it is when all processes and the other
  // host's daemon have gone, because a rank was connecting to it ("PMIX ERROR: UNREACHABLE"). What
  // counts here is that no rank stays.
  const Outcome outcome = FailOnTheSecondHost("leave_first", "timeout --signal=KILL 12");
  if (outcome.exit_code == 77) return;
  INFO(outcome.output);
  CHECK(outcome.exit_code != 0);
}

TEST_CASE("another order or operation of collectives on the second host ends with code 6") {
  for (const std::string way : {"order", "operation"}) {
    const Outcome outcome = FailOnTheSecondHost(way);
    if (outcome.exit_code == 77) return;
    INFO(way << ": " << outcome.output);
    CHECK(outcome.exit_code == 6);
    CHECK_THAT(outcome.output, Contains("out of step") && Contains("rank 3 "));
  }
}

TEST_CASE("variables of the first rank's host hold on the second") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  const ToyProgram toy;
  for (const std::string algorithm : {"flat", "measure"}) {
    const Outcome outcome =
        RunCommand(hosts->Command(toy, toy.Corpus() + " trainer.max_steps=5 run.comm_timeout=10s",
                                  "env DTRAIN_ALLREDUCE=" + algorithm + " " DTRAIN_TEST_MPIEXEC));
    INFO(algorithm << ": " << outcome.output);
    CHECK(outcome.exit_code == 0);
    std::filesystem::remove_all(toy.run_dir());
  }
}

TEST_CASE("fewer sentences than ranks on two hosts end with code 3 everywhere") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  const ToyProgram toy;
  WriteTestFile(toy.File("few.src"), "abc\nabcd\nabcde\n");
  WriteTestFile(toy.File("few.tgt"), "cba\ndcba\nedcba\n");
  CheckFailed(RunCommand(hosts->Command(toy, " data.train_source=" + toy.File("few.src") +
                                                 " data.train_target=" + toy.File("few.tgt"))),
              3, {"3 sentence pairs for 4 ranks; start fewer ranks"});
  CHECK(WaitUntil([&] { return CountProcesses(toy.run_dir()) == 0; }, 10));
}

TEST_CASE("a run of two hosts goes on with two ranks, one and three in the same order") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  const std::string common =
      " model.dropout=0 trainer.checkpoint_every=100u trainer.log_every=1 trainer.max_steps=";
  const ToyProgram whole;
  REQUIRE(RunCommand(hosts->Command(whole, whole.Corpus() + common + "40")).exit_code == 0);
  const ToyProgram toy;
  REQUIRE(RunCommand(hosts->Command(toy, toy.Corpus() + common + "10")).exit_code == 0);
  for (const auto& [ranks, steps] : {std::pair(2, 20), std::pair(1, 30), std::pair(3, 40)}) {
    const Outcome outcome = toy.Run(ranks, toy.Corpus() + common + std::to_string(steps));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
  }
  // Sums of other numbers of ranks are rounded differently: the same losses to five digits.
  const auto losses = [](const ToyProgram& program) {
    std::vector<double> values;
    std::istringstream lines(ReadTestFile(program.run_dir() + "/metrics/steps.jsonl"));
    const std::string key = "\"loss\":";
    for (std::string line; std::getline(lines, line);) {
      const size_t at = line.find(key);
      if (at != std::string::npos) values.push_back(std::stod(line.substr(at + key.size())));
    }
    return values;
  };
  const std::vector<double> expected = losses(whole);
  const std::vector<double> got = losses(toy);
  REQUIRE(expected.size() == 40);
  REQUIRE(got.size() == 40);
  for (size_t i = 0; i < 40; ++i) {
    INFO("update " << i + 1);
    CHECK(got[i] == Approx(expected[i]).epsilon(1e-5));
  }
}

TEST_CASE("10,000 named tensors in random orders, sizes and delays have exact sums on two hosts") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  Job job("exec " + hosts->OnBoth() +
          "env OMPI_MCA_mpi_yield_when_idle=1 " DTRAIN_TEST_COLLECTIVES
          " '*tensors in random orders*'");
  const Timer timer;
  const Outcome outcome = job.Wait(240);
  WARN("10,000 tensors took " << timer.Seconds() << " s");
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.output, Contains("All tests passed"));
}

}  // namespace
}  // namespace dtrain
