// mpi_test_main.cc - main of tests under mpirun: every rank runs, root prints, worst result wins.
// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_RUNNER
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "dtrain/comm/gather.h"
#include "testing/catch.h"
#include "testing/mpi_world.h"

namespace dtrain::testing {
namespace {

std::unique_ptr<Environment> environment;

// Catch2 3 has another name for it.
template <typename Config>
void SetOutputFile(Config& config, const std::string& path) {
  if constexpr (requires { config.defaultOutputFilename; }) {
    config.defaultOutputFilename = path;
  } else {
    config.outputFilename = path;
  }
}

// The other ranks' reports go to a temporary file and are printed only where root had no failure.
int RunOnThisRank(int argc, char** argv, std::FILE* report) {
  Catch::Session session;
  if (const int bad_flags = session.applyCommandLine(argc, argv); bad_flags != 0) return bad_flags;
  const std::string path = "/dev/fd/" + std::to_string(fileno(report));
  if (!MpiWorld().is_root()) SetOutputFile(session.configData(), path);
  return session.run();
}

void PrintReport(std::FILE* report) {
  std::fseek(report, 0, SEEK_SET);
  std::printf("--- report of rank %d\n", MpiWorld().rank());
  char line[512];
  while (std::fgets(line, sizeof(line), report) != nullptr) std::fputs(line, stdout);
}

int Main(int argc, char** argv) {
  setenv("DTRAIN_COMM_TIMEOUT", "20", /*replace=*/0);
  auto created = Environment::Create();
  if (!created.ok()) {
    std::fprintf(stderr, "%s\n", created.status().message().c_str());
    Environment::Abort(created.status().code());
  }
  environment = *std::move(created);
  std::FILE* const report = std::tmpfile();
  const int failures = RunOnThisRank(argc, argv, report);
  int worst = failures;
  try {
    worst = MpiWorld().AllReduceValue(failures, ReduceOp::kMax);
    const std::vector<int> all = AllGather(MpiWorld(), failures);
    if (all[0] == 0 && failures != 0) PrintReport(report);
  } catch (const CommError& error) {
    // A rank left a test early and the ranks are out of step.
    std::printf("%s\n", error.what());
    if (!MpiWorld().is_root()) PrintReport(report);
    Environment::Abort(ExitCode::kInternal);
  }
  std::fclose(report);
  environment.reset();
  return worst == 0 ? 0 : 1;
}

}  // namespace

Environment& MpiEnvironment() { return *environment; }

}  // namespace dtrain::testing

int main(int argc, char** argv) { return dtrain::testing::Main(argc, argv); }
