// job_end_program.cc - a job in which one rank fails in the way its argument says.
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/comm/environment.h"

namespace {

using namespace dtrain;

void FailAs(std::string_view way) {
  if (way == "kill") std::raise(SIGKILL);
  if (way == "stop") std::raise(SIGSTOP);
  if (way == "abort") Environment::Abort(ExitCode::kData);
  if (way == "leave") std::_Exit(9);
}

void Work(Communicator& comm, std::string_view way) {
  std::vector<float> data(100000);
  for (int step = 0; step < 1000000; ++step) {
    if (step == 20 && comm.rank() == 1) FailAs(way);
    if (step == 20 && way == "none") return;
    comm.AllReduce(std::span<float>(data), ReduceOp::kSum);
  }
}

}  // namespace

int main(int /*argc*/, char** argv) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (argv[1] == std::string_view("stop_first") && rank == std::string_view("1")) {
    std::raise(SIGSTOP);
  }
  const auto environment = Environment::Create();
  if (!environment.ok()) {
    std::fprintf(stderr, "%s\n", environment.status().ToString().c_str());
    Environment::Abort(ExitCodeOf(environment.status()));
  }
  const std::string_view way = argv[1];
  if (way == "cores") {
    std::printf("cores %d threads %d\n", (*environment)->cores(), (*environment)->threads());
    return 0;
  }
  try {
    Work((*environment)->World(), way);
  } catch (const CommError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    Environment::Abort(ExitCode::kCommunication);
  }
  return 0;
}
