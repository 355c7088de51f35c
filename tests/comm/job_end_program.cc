// job_end_program.cc - a job in which one rank fails in the way its argument says.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/environment.h"

namespace {

using namespace dtrain;

// Longer than the others' patience.
constexpr double kLongSeconds = 6;

void FailAs(std::string_view way, Pulse& pulse) {
  if (way == "kill") std::raise(SIGKILL);
  if (way == "stop") {
    // So long that a heartbeat has told of this step.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::raise(SIGSTOP);
  }
  if (way == "abort") Environment::Abort(ExitCode::kData);
  if (way == "leave") std::_Exit(9);
  if (way == "sleep") {
    pulse.SetPhase(Phase::kCheckpoint);
    std::this_thread::sleep_for(std::chrono::duration<double>(kLongSeconds));
  }
  for (const Timer timer; way == "compute" && timer.Seconds() < kLongSeconds;) {
  }
}

// Rank 1 calls two collectives in another order than the others do.
void Swap(Communicator& comm) {
  std::vector<float> first(100);
  std::vector<float> second(200);
  if (comm.rank() == 1) std::swap(first, second);
  comm.AllReduce(std::span<float>(first), ReduceOp::kSum);
  comm.AllReduce(std::span<float>(second), ReduceOp::kSum);
}

void Work(Communicator& comm, std::string_view way) {
  std::vector<float> data(100000);
  for (int step = 0; step < 1000000; ++step) {
    comm.pulse().SetStep(step);
    comm.pulse().SetPhase(Phase::kForward);
    if (step == 20 && comm.rank() == 1) FailAs(way, comm.pulse());
    if (step == 20 && way == "order") Swap(comm);
    if (step == 20 && way == "none") return;
    if (step == 21 && (way == "sleep" || way == "compute")) return;
    comm.AllReduce(std::span<float>(data), ReduceOp::kSum);
  }
}

}  // namespace

int main(int /*argc*/, char** argv) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (argv[1] == std::string_view("stop_first") && rank == std::string_view("1")) {
    std::raise(SIGSTOP);
  }
  if (argv[1] == std::string_view("leave_first") && rank == std::string_view("1")) return 9;
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
