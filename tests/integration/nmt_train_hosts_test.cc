// nmt_train_hosts_test.cc - one job on two hosts: trains the same, and ends when one is lost.
// SPDX-License-Identifier: Apache-2.0
//
// The hosts are namespaces of this machine (testing/two_hosts.sh), joined by a cable that the tests
// cut. Skipped with a word where namespaces are not allowed.
#include <memory>

#include "integration/nmt_train_program.h"

namespace dtrain {
namespace {

// Hosts "a" and "b", up as long as this object lives.
class TwoHosts {
 public:
  // nullptr, after a warning, where this machine cannot have them.
  static std::unique_ptr<TwoHosts> Start() {
    std::unique_ptr<TwoHosts> hosts(new TwoHosts);
    const Outcome up = RunCommand(hosts->Script("up"));
    INFO(up.output);
    if (up.exit_code == 77) {
      WARN(up.output);
      return nullptr;
    }
    REQUIRE(up.exit_code == 0);
    return hosts;
  }
  ~TwoHosts() { RunCommand(Script("down")); }

  std::string Script(const std::string& verb) const {
    return DTRAIN_TEST_TWO_HOSTS " " + verb + " " + folder_.File("hosts");
  }
  // As a user types it on host a: two ranks on each host.
  std::string Command(const ToyProgram& toy, const std::string& more,
                      const std::string& mpirun = DTRAIN_TEST_MPIRUN) const {
    return Script("on") + " a " + mpirun +
           " --allow-run-as-root -n 4 -H a:2,b:2 " DTRAIN_TEST_PROGRAM " " + toy.Arguments(more);
  }
  // The ranks of a job on host b, in their order.
  std::vector<pid_t> RanksOnB(const ToyProgram& toy) const {
    const std::string host = Namespace(ReadTestFile(folder_.File("hosts/b.pid")));
    std::vector<pid_t> ranks;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string arguments = ReadTestFile(entry.path() / "cmdline");
      if (arguments.starts_with(DTRAIN_TEST_PROGRAM) &&
          arguments.find(toy.run_dir()) != std::string::npos && Namespace(name) == host) {
        ranks.push_back(std::stoi(name));
      }
    }
    return ranks;
  }

 private:
  TwoHosts() = default;

  static std::string Namespace(std::string pid) {
    while (!pid.empty() && pid.back() == '\n') pid.pop_back();
    std::error_code error;
    return std::filesystem::read_symlink("/proc/" + pid + "/ns/uts", error);
  }

  TemporaryFolder folder_;
};

// A long run that is under way, ready for what happens to it.
class LongRun {
 public:
  explicit LongRun(const TwoHosts& hosts, const std::string& more = "",
                   const std::string& mpirun = DTRAIN_TEST_MPIRUN)
      : job_("exec " + hosts.Command(toy_,
                                     toy_.Corpus() +
                                         " trainer.max_steps=1000000 trainer.keep_last=2 "
                                         "trainer.checkpoint_every=50u " +
                                         more,
                                     mpirun)) {
    REQUIRE(WaitUntil([&] { return toy_.HasCheckpoint(50) || toy_.HasCheckpoint(100); }, 60));
  }
  const ToyProgram& toy() const { return toy_; }

  // What the job says at its end, which must come with no process left within `seconds`.
  Outcome CheckEnds(double seconds) {
    const Timer timer;
    Outcome outcome = job_.Wait(seconds);
    INFO(outcome.output);
    CHECK(outcome.exit_code != 0);
    CHECK(WaitUntil([&] { return CountProcesses(toy_.run_dir()) == 0; }, seconds));
    WARN("the last process was gone after " << timer.Seconds() << " s");
    CHECK(timer.Seconds() < seconds);
    return outcome;
  }

 private:
  ToyProgram toy_;
  Job job_;
};

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

TEST_CASE("a rank killed on the second host ends the job on both hosts") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  LongRun run(*hosts);
  const std::vector<pid_t> ranks = hosts->RanksOnB(run.toy());
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

TEST_CASE("a stopped rank on the second host is named, and the job ends with exit code 6") {
  const std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return;
  LongRun run(*hosts, "run.comm_timeout=4s");
  const std::vector<pid_t> ranks = hosts->RanksOnB(run.toy());
  REQUIRE(ranks.size() == 2);
  REQUIRE(::kill(ranks[0], SIGSTOP) == 0);
  const Outcome outcome = run.CheckEnds(15);
  CHECK(outcome.exit_code == 6);
  CHECK_THAT(outcome.output, Catch::Contains("(host b)"));
}

TEST_CASE("a cut cable ends the job on both hosts") {
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
