// child_process.cc - posix_spawn, pipes and wait.
// SPDX-License-Identifier: Apache-2.0
#include "tools/dtrain/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace dtrain {
namespace {

constexpr int kSignalBase = 128;  // as shells say that a signal ended a program

// While a child runs, signals from the terminal are its own.
class IgnoredSignals {
 public:
  IgnoredSignals() {
    for (size_t i = 0; i < kSignals.size(); ++i) before_[i] = std::signal(kSignals[i], SIG_IGN);
  }
  IgnoredSignals(const IgnoredSignals&) = delete;
  IgnoredSignals& operator=(const IgnoredSignals&) = delete;
  ~IgnoredSignals() {
    for (size_t i = 0; i < kSignals.size(); ++i) std::signal(kSignals[i], before_[i]);
  }
  // The child takes them as this process did before.
  void RestoreIn(posix_spawnattr_t& attributes) const {
    sigset_t defaults;
    sigemptyset(&defaults);
    for (size_t i = 0; i < kSignals.size(); ++i) {
      if (before_[i] != SIG_IGN) sigaddset(&defaults, kSignals[i]);
    }
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  }

 private:
  static constexpr std::array kSignals = {SIGINT, SIGQUIT};
  std::array<void (*)(int), kSignals.size()> before_{};
};

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  bool Open() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
  void CloseRead() {
    if (read_end >= 0) close(read_end);
    read_end = -1;
  }
  void CloseWrite() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    CloseRead();
    CloseWrite();
  }
};

// `in` and `out` are -1 for this process's own.
StatusOr<pid_t> Start(const std::vector<std::string>& command, int in, int out,
                      const IgnoredSignals& signals) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (in >= 0) posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
  if (out >= 0) posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  signals.RestoreIn(attributes);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    return UsageError(command.front() + ": cannot be started: " + std::strerror(error));
  }
  return child;
}

int ExitCodeOf(pid_t child) {
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(state) ? kSignalBase + WTERMSIG(state) : WEXITSTATUS(state);
}

}  // namespace

StatusOr<ChildOutcome> RunProgram(const std::vector<std::string>& command) {
  const IgnoredSignals signals;
  DT_ASSIGN_OR_RETURN(const pid_t child, Start(command, -1, -1, signals));
  return ChildOutcome{.exit_code = ExitCodeOf(child), .output = {}};
}

StatusOr<ChildOutcome> RunFilter(const std::vector<std::string>& command,
                                 const std::string& input) {
  Pipe to_child;
  Pipe from_child;
  if (!to_child.Open() || !from_child.Open()) {
    return StorageError(std::string("cannot open a pipe: ") + std::strerror(errno));
  }
  // The pipe holds all of it, so nobody needs to read it yet.
  if (write(to_child.write_end, input.data(), input.size()) != static_cast<ssize_t>(input.size())) {
    return StorageError(std::string("cannot write to a pipe: ") + std::strerror(errno));
  }
  const IgnoredSignals signals;
  DT_ASSIGN_OR_RETURN(const pid_t child,
                      Start(command, to_child.read_end, from_child.write_end, signals));
  to_child.CloseWrite();
  from_child.CloseWrite();
  ChildOutcome outcome;
  std::array<char, 4096> part{};
  for (ssize_t bytes = 0; (bytes = read(from_child.read_end, part.data(), part.size())) != 0;) {
    if (bytes > 0) {
      outcome.output.append(part.data(), static_cast<size_t>(bytes));
    } else if (errno != EINTR) {
      break;
    }
  }
  outcome.exit_code = ExitCodeOf(child);
  return outcome;
}

}  // namespace dtrain
