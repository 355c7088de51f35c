// nmt_train_program.h - starts the real nmt_train on a toy corpus, alone and under mpirun.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_INTEGRATION_NMT_TRAIN_PROGRAM_H_
#define DTRAIN_TESTS_INTEGRATION_NMT_TRAIN_PROGRAM_H_

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/base/timer.h"
#include "testing/file_testing.h"

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
      ::execl("/bin/bash", "bash", "-c", (command + " >" + output_ + " 2>&1").c_str(), nullptr);
      ::_exit(127);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    if (pid_ <= 0) return;
    for (const pid_t rank : Children()) ::kill(rank, SIGKILL);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void Signal(int signal) const { ::kill(pid_, signal); }
  // Of an mpirun: its ranks, in their order.
  std::vector<pid_t> Children() const {
    const std::string id = std::to_string(pid_);
    std::ifstream file("/proc/" + id + "/task/" + id + "/children");
    std::vector<pid_t> children;
    for (pid_t child = 0; file >> child;) children.push_back(child);
    return children;
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

// A corpus of words and the same words spelled backwards, and command lines for it.
class ToyProgram {
 public:
  ToyProgram() {
    RandomStream random({.seed = 5});
    for (int i = 0; i < 300; ++i) {
      std::string word(3 + random.NextBelow(10), ' ');
      for (char& c : word) c = static_cast<char>('a' + random.NextBelow(8));
      source_ += word + "\n";
      target_ += std::string(word.rbegin(), word.rend()) + "\n";
    }
    WriteTestFile(File("train.src"), source_);
    WriteTestFile(File("train.tgt"), target_);
    WriteTestFile(File("dev.tsv"), "abcdefgh\thgfedcba\nhhggffee\teeffgghh\n");
  }

  std::string File(const std::string& name) const { return folder_.File(name); }
  std::string run_dir() const { return File("run"); }
  const std::string& source() const { return source_; }
  const std::string& target() const { return target_; }

  // Arguments of a run of 20 updates into run_dir(); later ones override earlier ones.
  std::string Arguments(const std::string& more = "") const {
    return "model.encoder_layers=1 model.decoder_layers=1 model.hidden_size=32 model.ffn_size=32 "
           "model.num_heads=2 model.max_positions=64 optimizer.warmup_steps=50 "
           "trainer.tokens_per_batch=100 trainer.beam_size=1 trainer.eval_every= "
           "trainer.checkpoint_every=10u trainer.max_steps=20 data.hold_out_test=0 "
           "data.vocab_size=40 data.max_length=60 run.progress=none data.dev_tsv=" +
           File("dev.tsv") + " run.run_dir=" + run_dir() + " " + more;
  }
  std::string Corpus() const {
    return " data.train_source=" + File("train.src") + " data.train_target=" + File("train.tgt");
  }
  std::string Command(int ranks, const std::string& more = "") const {
    const std::string program = DTRAIN_TEST_PROGRAM " " + Arguments(more);
    if (ranks == 1) return program;
    return Mpirun() + " -n " + std::to_string(ranks) + " " + program;
  }
  static std::string Mpirun() { return DTRAIN_TEST_MPIRUN " --allow-run-as-root --oversubscribe"; }
  Outcome Run(int ranks, const std::string& more = "") const {
    return RunCommand(Command(ranks, more));
  }

  std::string CheckpointFile(int step, const std::string& name = "model.safetensors") const {
    std::ostringstream path;
    path << run_dir() << "/ckpt/step-" << std::string(8 - std::to_string(step).size(), '0') << step
         << "/" << name;
    return path.str();
  }
  bool HasCheckpoint(int step) const {
    return std::filesystem::exists(CheckpointFile(step, "COMPLETE"));
  }
  std::string Log() const { return ReadTestFile(run_dir() + "/logs/rank-00000.log"); }
  void RemoveRun() const { std::filesystem::remove_all(run_dir()); }

 private:
  TemporaryFolder folder_;
  std::string source_, target_;
};

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

#endif  // DTRAIN_TESTS_INTEGRATION_NMT_TRAIN_PROGRAM_H_
