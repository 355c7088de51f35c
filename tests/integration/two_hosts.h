// two_hosts.h - two hosts made of namespaces of this machine, and long runs of nmt_train on them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_INTEGRATION_TWO_HOSTS_H_
#define DTRAIN_TESTS_INTEGRATION_TWO_HOSTS_H_

#include <algorithm>
#include <filesystem>
#include <ios>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "integration/nmt_train_program.h"
#include "testing/launcher.h"

namespace dtrain {

// The name's namespace, which tells hosts apart.
inline std::string HostNamespace(std::string pid) {
  while (!pid.empty() && pid.back() == '\n') pid.pop_back();
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + pid + "/ns/uts", error);
}

// A rank's number by its process's variables, as mpirun or srun sets them.
inline int RankIn(const std::string& variables) {
  for (const char* const name : {launcher::kRankVariable, "SLURM_PROCID"}) {
    const std::string variable = std::string(1, '\0') + name + "=";
    const size_t at = variables.find(variable);
    if (at != std::string::npos) return std::stoi(variables.substr(at + variable.size()));
  }
  return 0;
}

// The ranks of a job on a host, in their order. `state` is the folder given to two_hosts.sh.
inline std::vector<pid_t> RanksOn(const std::string& state, const std::string& host_name,
                                  const ToyProgram& toy) {
  const std::string host = HostNamespace(ReadTestFile(state + "/" + host_name + ".pid"));
  std::vector<std::pair<int, pid_t>> ranks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string arguments, variables;
    try {
      arguments = ReadTestFile(entry.path() / "cmdline");
      variables = ReadTestFile(entry.path() / "environ");
    } catch (const std::ios_base::failure&) {
      continue;  // the process has ended meanwhile
    }
    if (arguments.starts_with(DTRAIN_TEST_PROGRAM) &&
        arguments.find(toy.run_dir()) != std::string::npos && HostNamespace(name) == host) {
      ranks.emplace_back(RankIn(variables), std::stoi(name));
    }
  }
  // Launchers start the processes in any order.
  std::ranges::sort(ranks);
  std::vector<pid_t> processes;
  for (const auto& [rank, process] : ranks) processes.push_back(process);
  return processes;
}

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
                      const std::string& mpirun = DTRAIN_TEST_MPIEXEC) const {
    return OnBoth(mpirun) + DTRAIN_TEST_PROGRAM " " + toy.Arguments(more);
  }
  // What the command of a program on both hosts begins with.
  std::string OnBoth(const std::string& mpirun = DTRAIN_TEST_MPIEXEC) const {
    return Script("on") + " a " + mpirun + launcher::kOnTwoHosts;
  }
  // A rank's number by its process's variables, as mpirun or srun sets them.
  inline int RankIn(const std::string& variables) {
    for (const char* const name : {launcher::kRankVariable, "SLURM_PROCID"}) {
      const std::string variable = std::string(1, '\0') + name + "=";
      const size_t at = variables.find(variable);
      if (at != std::string::npos) return std::stoi(variables.substr(at + variable.size()));
    }
    return 0;
  }

  // The ranks of a job on a host, in their order.
  std::vector<pid_t> RanksOn(const std::string& host_name, const ToyProgram& toy) const {
    return dtrain::RanksOn(folder_.File("hosts"), host_name, toy);
  }

 private:
  TwoHosts() = default;

  TemporaryFolder folder_;
};

// A long run that is under way, ready for what happens to it.
class LongRun {
 public:
  explicit LongRun(const TwoHosts& hosts, const std::string& more = "",
                   const std::string& mpirun = DTRAIN_TEST_MPIEXEC)
      : job_("exec " + hosts.Command(toy_,
                                     toy_.Corpus() +
                                         " trainer.max_steps=1000000 trainer.keep_last=2 "
                                         "trainer.checkpoint_every=50u " +
                                         more,
                                     mpirun)) {
    REQUIRE(WaitUntil([&] { return toy_.HasCheckpoint(50) || toy_.HasCheckpoint(100); }, 60));
  }
  const ToyProgram& toy() const { return toy_; }
  const Job& job() const { return job_; }

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

}  // namespace dtrain

#endif  // DTRAIN_TESTS_INTEGRATION_TWO_HOSTS_H_
