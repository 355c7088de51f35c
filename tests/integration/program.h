// program.h - starts real programs as users do, alone and under mpirun, and reads what they say.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_INTEGRATION_PROGRAM_H_
#define DTRAIN_TESTS_INTEGRATION_PROGRAM_H_

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dtrain/base/timer.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/launcher.h"

namespace dtrain {

struct Outcome {
  int exit_code = -1;  // 128 + signal where one ended it
  std::string output;  // stdout and stderr
  double seconds = 0;
};

// True as soon as the condition holds, false if it does not within `seconds`.
inline bool WaitUntil(const std::function<bool()>& condition, double seconds) {
  const Timer timer;
  while (!condition()) {
    if (timer.Seconds() > seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

inline std::vector<pid_t> ChildrenOf(pid_t process) {
  const std::string id = std::to_string(process);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

// A command that runs beside the test. Killed, if it still runs, when the test ends.
class Job {
 public:
  explicit Job(const std::string& command) : output_(output_folder_.File("output")) {
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      // Ranks share the cores with other tests; an error should not wait for mpirun's grace.
      ::setenv("OMP_NUM_THREADS", "1", 1);
      ::setenv("OMP_WAIT_POLICY", "passive", 1);
      ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
      ::setenv("OMPI_MCA_odls_base_sigkill_timeout", "0", 1);
      ::setenv("PRTE_MCA_odls_base_sigkill_timeout", "0", 1);
      ::execl("/bin/bash", "bash", "-c", (command + " >" + output_ + " 2>&1").c_str(), nullptr);
      ::_exit(127);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    if (pid_ <= 0) return;
    for (const pid_t rank : Ranks()) ::kill(rank, SIGKILL);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void Signal(int signal) const { ::kill(pid_, signal); }
  // Of an mpirun: its ranks, in their order. Those of Hydra are children of its proxy.
  std::vector<pid_t> Ranks() const {
    std::vector<pid_t> ranks = ChildrenOf(pid_);
    return launcher::kIsOpenMpi || ranks.size() != 1 ? ranks : ChildrenOf(ranks[0]);
  }
  // The end of the command, which must come within `seconds`.
  Outcome Wait(double seconds = 60) {
    int status = 0;
    const bool ended =
        WaitUntil([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, seconds);
    INFO("still running after " << seconds << " s: " << ReadTestFile(output_));
    REQUIRE(ended);
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), ReadTestFile(output_),
            timer_.Seconds()};
  }

 private:
  TemporaryFolder output_folder_;
  std::string output_;
  Timer timer_;
  pid_t pid_ = -1;
};

inline Outcome RunCommand(const std::string& command) { return Job("exec " + command).Wait(); }

// True, after a warning, under another mpirun than Open MPI's, which alone has what `reason` names.
inline bool LacksOpenMpi(const std::string& reason) {
  if (!launcher::kIsOpenMpi) WARN("skipped: " << reason);
  return !launcher::kIsOpenMpi;
}

// The command of a program on so many ranks.
inline std::string CommandOn(int ranks, const std::string& program) {
  if (ranks == 1) return program;
  return DTRAIN_TEST_MPIRUN " -n " + std::to_string(ranks) + " " + program;
}

// Processes, but this one, whose command line holds `text`.
inline int CountProcesses(const std::string& text) {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (name == std::to_string(::getpid())) continue;
    if (ReadTestFile(entry.path() / "cmdline").find(text) != std::string::npos) ++count;
  }
  return count;
}

inline size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

// What stands behind the last `name` of the text, up to a space.
inline std::string ValueOf(const std::string& text, const std::string& name) {
  const size_t at = text.rfind(name + " ");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 1;
  return text.substr(begin, text.find_first_of(" \n", begin) - begin);
}

// An error that ends the whole job: exit code, and one report that holds all the parts.
inline void CheckFailed(const Outcome& outcome, int exit_code,
                        const std::vector<std::string>& parts) {
  INFO(outcome.output);
  CHECK(outcome.exit_code == exit_code);
  CHECK(CountOf(outcome.output, "dtrain: error[E" + std::to_string(exit_code) + "]: ") == 1);
  CHECK(CountOf(outcome.output, "dtrain: error") == 1);
  for (const std::string& part : parts) CHECK_THAT(outcome.output, Catch::Contains(part));
  CHECK(outcome.seconds < 10);
}

}  // namespace dtrain

#endif  // DTRAIN_TESTS_INTEGRATION_PROGRAM_H_
