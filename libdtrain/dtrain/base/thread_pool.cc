// thread_pool.cc - parallel loops on OpenMP's thread pool, which oneDNN uses too.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/thread_pool.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "dtrain/base/check.h"

namespace dtrain {
namespace {

// Number of threads of this process, or 0 if the system does not report it.
int64_t CountThreads() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return error ? 0 : std::distance(begin(threads), end(threads));
}

// The arguments the process was started with. main() may have removed some from its own copy.
std::vector<std::string> CommandLine() {
  std::vector<std::string> arguments;
  std::ifstream file("/proc/self/cmdline");
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

}  // namespace

int NumThreads() { return omp_get_max_threads(); }

void SetNumThreads(int count) {
  DT_CHECK_GE(count, 1);
  omp_set_num_threads(count);
}

void ReexecWithPassiveWaiting() {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    if (std::getenv(name) != nullptr) return;
  }
  if (CountThreads() > 1) return;
  std::vector<std::string> arguments = CommandLine();
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // A few microseconds of spinning: long enough for the next loop to start on an idle machine,
  // short enough for a busy one.
  setenv("GOMP_SPINCOUNT", "5000", /*overwrite=*/0);
  // The path of the program keeps its name in ps, top and ss; /proc/self/exe would show "exe".
  // execv() returns only on failure, for example if the file was replaced. If the second call fails
  // too, the program continues unchanged.
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (!error) execv(program.c_str(), argv.data());
  execv("/proc/self/exe", argv.data());
}

void ParallelFor(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  const int64_t pieces = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, NumThreads());
  if (pieces == 1 || omp_in_parallel() != 0) {
    body(0, count);
    return;
  }
  std::exception_ptr error;
#pragma omp parallel for num_threads(static_cast <int>(pieces)) schedule(static, 1)
  for (int64_t i = 0; i < pieces; ++i) {
    try {
      body(count * i / pieces, count * (i + 1) / pieces);
    } catch (...) {
#pragma omp critical(dtrain_parallel_for)
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace dtrain
