// collective_runner.cc - the one wait loop of all collectives.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/collective_runner.h"

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/heartbeat_wait.h"

namespace dtrain::internal {
namespace {

constexpr int kWaitWatchdogTag = 4 * Transport::kTagTurns;
static_assert(kWaitWatchdogTag < Transport::kTags);

// Spins while an answer may be on its way, then gives the core to another thread that can use it:
// on a free core a yield costs no more than a spin. Long waits sleep.
class Backoff {
 public:
  void Reset() { timer_.Restart(); }
  void Pause() {
    const double seconds = timer_.Seconds();
    if (seconds < 2e-6) return;
    if (seconds < 2e-3) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  Timer timer_;
};

}  // namespace

class CollectiveRunner::HandleImpl final : public Handle {
 public:
  HandleImpl(CollectiveRunner* runner, std::shared_ptr<Outstanding> outstanding)
      : runner_(runner), outstanding_(std::move(outstanding)) {}
  bool Test() override {
    if (!outstanding_->done) runner_->Poll();
    return outstanding_->done;
  }
  void Wait() override { runner_->Wait(*outstanding_); }
  std::vector<int> MissingRanks() const override {
    std::vector<int> ranks;
    if (!outstanding_->done) outstanding_->operation->AddMissing(&ranks);
    return ranks;
  }

 private:
  CollectiveRunner* runner_;
  std::shared_ptr<Outstanding> outstanding_;
};

CollectiveRunner::CollectiveRunner(Transport* transport, const HostChannels* channels,
                                   const RankTopology& topology, const CommunicatorOptions& options,
                                   std::shared_ptr<Heartbeat> heartbeat,
                                   std::shared_ptr<FlightRecords> records, int context)
    : transport_(transport),
      channels_(channels),
      name_(topology.RankName(topology.rank())),
      heartbeat_(std::move(heartbeat)),
      wait_watchdog_(transport, kWaitWatchdogTag, topology, options),
      recorder_(std::move(records), {.rank = topology.job_rank(topology.rank()),
                                     .host = topology.host(topology.rank()),
                                     .group = context,
                                     .group_name = topology.group_name()}) {}

void CollectiveRunner::EndSetUp(bool reports) {
  sequence_ = 0;
  reports_ = reports;
}

std::unique_ptr<Handle> CollectiveRunner::Start(const CollectiveLabel& label,
                                                std::unique_ptr<Operation> operation) {
  recorder_.Begin(sequence_, label.name, label.bytes);
  if (reports_) {
    heartbeat_->BeginCollective(label.name,
                                (label.same_bytes ? label.bytes << 16 : 0) + label.kind);
  }
  auto outstanding = std::make_shared<Outstanding>();
  outstanding->operation = std::move(operation);
  outstanding->state.sequence = sequence_++;
  std::strncpy(outstanding->state.collective, label.name, sizeof(WaitState::collective) - 1);
  outstanding_.push_back(outstanding);
  Poll();
  return std::make_unique<HandleImpl>(this, std::move(outstanding));
}

void CollectiveRunner::Fail(std::string reason) {
  failure_ = std::move(reason);
  const std::string path = recorder_.Dump(failure_);
  if (!path.empty()) LogWarning("the last collectives of this rank are in " + path);
  throw CommError(failure_);
}

void CollectiveRunner::Poll() {
  if (!failure_.empty()) throw CommError(failure_);
  try {
    transport_->Check();
    for (const auto& outstanding : outstanding_) {
      outstanding->done = outstanding->operation->Progress();
      if (outstanding->done) recorder_.End(outstanding->state.sequence);
    }
  } catch (const CommError& error) {
    Fail(absl::StrCat(name_, ": ", error.what()));
  }
  std::erase_if(outstanding_, [](const auto& outstanding) { return outstanding->done; });
}

void CollectiveRunner::Wait(const Outstanding& outstanding) {
  Backoff backoff;
  Timer idle;
  HeartbeatWait mark(reports_ ? heartbeat_.get() : nullptr);
  int64_t moves = Moves();
  while (!outstanding.done) {
    mark.Round();
    Poll();
    if (Moves() != moves) {
      moves = Moves();
      mark.Moved();
      backoff.Reset();
      idle.Restart();
      continue;
    }
    if (outstanding.done) return;
    backoff.Pause();
    if (idle.Seconds() < 0.1) continue;
    mark.Idle();
    std::vector<int> missing;
    outstanding.operation->AddMissing(&missing);
    Heartbeat::Judgement judgement = heartbeat_->judgement();
    // Heartbeats do not report the collectives of groups, which other threads may use.
    judgement.watched = judgement.watched && reports_;
    try {
      wait_watchdog_.OnIdle(outstanding.state, idle.Seconds(), missing, judgement);
    } catch (const CommError& error) {
      Fail(error.what());
    }
    // Messages that the watchdog receives are no progress of the collective.
    moves = Moves();
  }
}

}  // namespace dtrain::internal
