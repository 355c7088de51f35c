// job_end_program.cc - a job in which one rank (argument 2, or 1) fails in the way argument 1 says.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/collectives.h"
#include "dtrain/comm/environment.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/launch/run_on_ranks.h"

namespace {

using namespace dtrain;

// Longer than the others' patience.
constexpr double kLongSeconds = 6;

void FailAs(std::string_view way, Heartbeat& heartbeat) {
  if (way == "kill") std::raise(SIGKILL);
  if (way == "stop") {
    // So long that a heartbeat has told of this step.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::raise(SIGSTOP);
  }
  if (way == "abort") Environment::Abort(ExitCode::kData);
  if (way == "leave") std::_Exit(9);
  if (way == "sleep") {
    heartbeat.SetPhase(Phase::kCheckpoint);
    std::this_thread::sleep_for(std::chrono::duration<double>(kLongSeconds));
  }
  for (const Timer timer; way == "compute" && timer.Seconds() < kLongSeconds;) {
  }
}

// One rank calls two collectives in another order than the others do.
void Swap(Communicator& comm, int failing) {
  std::vector<float> first(100);
  std::vector<float> second(200);
  if (comm.rank() == failing) std::swap(first, second);
  comm.AllReduce(std::span<float>(first), ReduceOp::kSum);
  comm.AllReduce(std::span<float>(second), ReduceOp::kSum);
}

// Rank 0 sends and receives other numbers of bytes than the others do.
void ExchangeUnevenly(Communicator& comm) {
  const int size = comm.size();
  const auto between = [](int from, int to) { return int64_t{from} * 3 + to; };
  std::vector<int64_t> from_offsets{0};
  std::vector<int64_t> to_offsets{0};
  for (int r = 0; r < size; ++r) {
    from_offsets.push_back(from_offsets.back() + between(comm.rank(), r));
    to_offsets.push_back(to_offsets.back() + between(r, comm.rank()));
  }
  const std::vector<char> from(static_cast<size_t>(from_offsets.back()));
  std::vector<char> to(static_cast<size_t>(to_offsets.back()));
  comm.StartAllToAllV(from.data(), from_offsets, to.data(), to_offsets)->Wait();
}

void Work(Communicator& comm, std::string_view way, int failing) {
  std::vector<float> data(100000);
  for (int step = 0; step < 1000000; ++step) {
    HeartbeatOf(comm)->SetStep(step);
    HeartbeatOf(comm)->SetPhase(Phase::kForward);
    if (step == 20 && comm.rank() == failing) FailAs(way, *HeartbeatOf(comm));
    if (step == 20 && way == "order") Swap(comm, failing);
    if (step == 20 && way == "operation") {
      comm.AllReduce(std::span<float>(data),
                     comm.rank() == failing ? ReduceOp::kMax : ReduceOp::kSum);
    }
    if (step == 20 && (way == "none" || way.starts_with("end_"))) return;
    if (way == "uneven") {
      if (step == 20) ExchangeUnevenly(comm);
      // Steps go on while heartbeats compare what the ranks have called; a verdict ends a job whose
      // ranks do not wait only seconds later.
      const std::string verdict = HeartbeatOf(comm)->judgement().failure;
      if (!verdict.empty()) throw CommError(verdict);
      if (step == 120) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (step == 21 && (way == "sleep" || way == "compute")) return;
    comm.AllReduce(std::span<float>(data), ReduceOp::kSum);
  }
}

// The same with a named tensor, whose reduction is under way when a rank fails.
Status WorkByName(Communicator& comm, std::string_view way, int failing) {
  Collectives collectives(comm);
  std::vector<float> data(100000);
  const Tensor tensor = Tensor::View(data.data(), {100000});
  for (int step = 0; step < 1000000; ++step) {
    HeartbeatOf(comm)->SetStep(step);
    HeartbeatOf(comm)->SetPhase(Phase::kForward);
    if (step == 22 && way == "compute") break;
    const CollectiveHandle handle = collectives.AllReduce("weight", tensor);
    if (step == 20 && comm.rank() == failing) FailAs(way, *HeartbeatOf(comm));
    DT_RETURN_IF_ERROR(handle.Wait());
  }
  return OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argv[1];
  const int failing = argc > 2 ? std::atoi(argv[2]) : 1;
  const bool is_failing = LaunchedRank() == failing;
  if (way == "stop_first" && is_failing) std::raise(SIGSTOP);
  if (way == "leave_first" && is_failing) return 9;
  const auto environment = Environment::Create();
  if (!environment.ok()) {
    std::fprintf(stderr, "%s\n", environment.status().message().c_str());
    Environment::Abort(environment.status().code());
  }
  if (way == "cores") {
    std::printf("cores %d threads %d\n", (*environment)->cores(), (*environment)->threads());
    return 0;
  }
  try {
    constexpr std::string_view kNamed = "named_";
    if (!way.starts_with(kNamed)) {
      Work((*environment)->World(), way, failing);
    } else if (const Status status =
                   WorkByName((*environment)->World(), way.substr(kNamed.size()), failing);
               !status.ok()) {
      std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
      Environment::Abort(status.code());
    }
    if (is_failing && way == "end_stop") FailAs("stop", *HeartbeatOf((*environment)->World()));
    if (is_failing && way == "end_late") {
      HeartbeatOf((*environment)->World())->SetPhase(Phase::kCheckpoint);
      std::this_thread::sleep_for(std::chrono::duration<double>(kLongSeconds));
    }
  } catch (const CommError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    Environment::Abort(ExitCode::kCommunication);
  }
  return 0;
}
