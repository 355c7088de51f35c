// heartbeat_service_test.cc - datagrams of several ranks: who is heard, what all ranks are told.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/heartbeat_service.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/heartbeat.h"
#include "testing/catch.h"
#include "testing/scripted_communicator.h"

namespace dtrain::internal {
namespace {

// The heartbeats of a job. Its ranks learn of rank 0's socket from it, as over MPI; rank
// `stranger` with a token of another job, which is what the message begins with.
class Job {
 public:
  explicit Job(int ranks, int stranger = -1) {
    // Beats come every 20 ms, and nobody is silent for too long before the test is over.
    const CommunicatorOptions options{.timeout_seconds = 120, .slow_seconds = 0.1};
    for (int rank = 0; rank < ranks; ++rank) {
      const auto on_broadcast = [this, rank, stranger](void* data, int64_t bytes) {
        auto* const chars = static_cast<char*>(data);
        if (rank == 0) meeting_.assign(chars, chars + bytes);
        std::memcpy(chars, meeting_.data(), meeting_.size());
        if (rank == stranger) chars[0] = static_cast<char>(chars[0] ^ 1);
      };
      worlds_.push_back(std::make_unique<testing::ScriptedCommunicator>(
          rank, std::vector<std::string>(static_cast<size_t>(ranks), "a"), on_broadcast));
      beats_.push_back(HeartbeatService::Start(*worlds_.back(), options));
    }
  }
  ~Job() { SetLogSink(previous_); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Heartbeat& heartbeat(int rank) { return *HeartbeatOf(*worlds_[static_cast<size_t>(rank)]); }
  Heartbeat::Judgement JudgementOf(int rank) { return heartbeat(rank).judgement(); }
  // Whether `holds` becomes true of all ranks within `seconds`.
  bool Comes(double seconds, const std::function<bool(const Heartbeat::Judgement&)>& holds) {
    for (const Timer timer; timer.Seconds() < seconds;) {
      bool all = true;
      for (size_t r = 0; r < worlds_.size(); ++r)
        all = all && holds(JudgementOf(static_cast<int>(r)));
      if (all) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

 private:
  LogSink previous_ = SetLogSink([](LogLevel, std::string_view) {});
  std::vector<char> meeting_;
  std::vector<std::unique_ptr<testing::ScriptedCommunicator>> worlds_;
  std::vector<std::unique_ptr<HeartbeatService>> beats_;
};

bool IsWatched(const Heartbeat::Judgement& judgement) { return judgement.watched; }

TEST_CASE("ranks whose beats all arrive are watched") {
  Job job(3);
  CHECK(job.Comes(5, IsWatched));
  for (const int rank : {0, 1, 2}) CHECK(job.JudgementOf(rank).failure == "");
}

TEST_CASE("beats with the token of another job are not heard") {
  Job job(2, /*stranger=*/1);
  // Ten times the time after which ranks of one job are watched.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK_FALSE(job.JudgementOf(0).watched);
  CHECK_FALSE(job.JudgementOf(1).watched);
}

TEST_CASE("what rank 0 judges to be a failure of the job is one on every rank") {
  Job job(3);
  REQUIRE(job.Comes(5, IsWatched));
  for (const int rank : {0, 1, 2}) {
    job.heartbeat(rank).BeginCollective(rank == 1 ? "Barrier" : "AllReduce", 40);
  }
  // Soon, as a rank ends its process some seconds after it has heard of a failure.
  CHECK(job.Comes(2, [](const Heartbeat::Judgement& judgement) {
    return judgement.failure.find("out of step") != std::string::npos;
  }));
}

}  // namespace
}  // namespace dtrain::internal
