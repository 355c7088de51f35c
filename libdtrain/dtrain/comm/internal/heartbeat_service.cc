// heartbeat_service.cc - the thread that sends, listens and lets the watchdog decide.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/heartbeat_service.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/base/status.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/flight_records.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/comm/internal/flight_recorder.h"
#include "dtrain/comm/internal/heartbeat_socket.h"
#include "dtrain/comm/internal/watchdog.h"

namespace dtrain::internal {
namespace {

// How long after the verdict a rank ends whose thread does not come back to its collectives.
constexpr double kGraceSeconds = 3;
// The time for writing the record of the last collectives. The disk may be what does not answer.
constexpr std::chrono::seconds kRecordTime(1);

// Stands still while the process does, because a suspended job has not been silent.
class WakingClock {
 public:
  explicit WakingClock(double longest_step) : longest_step_(longest_step) {}
  double Now() { return now_ += std::min(timer_.Restart(), longest_step_); }

 private:
  double longest_step_;
  double now_ = 0;
  Timer timer_;
};

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

int64_t CpuMilliseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000;
}

// Rank 0 watches all ranks, the others watch rank 0.
std::vector<int> WatchedBy(const RankTopology& ranks) {
  std::vector<int> watched(ranks.rank() == 0 ? static_cast<size_t>(ranks.size()) : 1);
  std::iota(watched.begin(), watched.end(), 0);
  return watched;
}

std::vector<std::string> HostsOf(const RankTopology& ranks) {
  std::vector<std::string> hosts;
  for (int r = 0; r < ranks.size(); ++r) hosts.push_back(ranks.host(r));
  return hosts;
}

class HeartbeatThread final : public HeartbeatService {
 public:
  // The socket has joined the job.
  HeartbeatThread(Communicator& world, const CommunicatorOptions& options, HeartbeatSocket socket)
      : rank_(world.rank()),
        heartbeat_(HeartbeatOf(world)),
        records_(RecordsOf(world)),
        times_(options),
        socket_(std::move(socket)),
        stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        clock_(2 * times_.beat),
        watchdog_(HostsOf(world.topology()), WatchedBy(world.topology()), times_) {
    // Other threads handle signals.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { Run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~HeartbeatThread() override {
    const uint64_t one = 1;
    while (::write(stop_.get(), &one, sizeof(one)) < 0) {
    }
    thread_.join();
    // A datagram may get lost.
    for (int i = 0; i < 3; ++i) socket_.Send(MakeMessage(/*leaving=*/true));
  }

 private:
  void Run() {
    Timer since_beat;
    std::array<pollfd, 2> waits = {
        pollfd{.fd = socket_.descriptor(), .events = POLLIN, .revents = 0},
        pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    Tick();
    for (;;) {
      const double left = times_.beat - since_beat.Seconds();
      if (left > 0) {
        ::poll(waits.data(), waits.size(), static_cast<int>(left * 1000) + 1);
      }
      if ((waits[1].revents & POLLIN) != 0) return;
      // Takes all that has arrived before it decides: this thread may have slept for long.
      const double now = clock_.Now();
      while (const std::optional<HeartbeatMessage> message = socket_.Receive()) {
        watchdog_.Hear(message->beat, now);
        if (rank_ != 0) Obey(*message);
      }
      if (since_beat.Seconds() < times_.beat) continue;
      since_beat.Restart();
      Tick();
    }
  }

  void Tick() {
    const double now = clock_.Now();
    HeartbeatMessage message = MakeMessage(/*leaving=*/false);
    if (rank_ == 0) watchdog_.Hear(message.beat, now);
    const Findings findings =
        rank_ == 0 ? watchdog_.Look(now, [this](int64_t n) { return heartbeat_->DigestAfter(n); })
                   : watchdog_.LookForSilence(now);
    if (!findings.note.empty()) {
      LogWarning(findings.note);
      note_ = findings.note;
      ++note_number_;
    }
    if (rank_ == 0) judgement_.watched = findings.complete;
    if (judgement_.failure.empty()) judgement_.failure = findings.failure;
    heartbeat_->Judge(judgement_);
    if (rank_ == 0) Fill(message);
    socket_.Send(message);
    EndWhereStuck(now);
  }

  HeartbeatMessage MakeMessage(bool leaving) {
    const Heartbeat::State state = heartbeat_->Read();
    HeartbeatMessage message;
    message.beat = {.rank = rank_,
                    .process = ::getpid(),
                    .count = ++count_,
                    .step = state.step,
                    .sequence = state.sequence,
                    .digest = state.digest,
                    .moves = state.moves,
                    .cpu_milliseconds = CpuMilliseconds(),
                    .waited_seconds = state.waited_seconds,
                    .phase = state.phase,
                    .waiting = state.waiting,
                    .leaving = leaving,
                    .named = state.named};
    std::strncpy(message.beat.collective.data(), state.collective.c_str(),
                 message.beat.collective.size() - 1);
    return message;
  }

  void Fill(HeartbeatMessage& message) const {
    message.note_number = note_number_;
    message.watched = judgement_.watched;
    message.is_failure = !judgement_.failure.empty();
    const std::string& text = message.is_failure ? judgement_.failure : note_;
    std::strncpy(message.text.data(), text.c_str(), message.text.size() - 1);
  }

  // Takes over what rank 0 has concluded.
  void Obey(const HeartbeatMessage& message) {
    judgement_.watched = message.watched && !message.beat.leaving;
    if (message.is_failure) {
      if (judgement_.failure.empty()) judgement_.failure = message.text.data();
    } else if (message.note_number > note_number_) {
      note_number_ = message.note_number;
      LogInfo(std::string("rank 0 says: ") + message.text.data());
    }
    heartbeat_->Judge(judgement_);
  }

  // The thread that trains ends the job itself if it can. Both it and MPI may be stuck.
  void EndWhereStuck(double now) {
    if (judgement_.failure.empty()) return;
    if (failed_at_ < 0) failed_at_ = now;
    if (now - failed_at_ < kGraceSeconds) return;
    std::fprintf(stderr, "dtrain: error[E6]: rank %d: %s (see docs/errors.md#e6)\n", rank_,
                 judgement_.failure.c_str());
    std::fflush(nullptr);
    std::promise<void> written;
    try {
      std::thread([&] {
        records_->DumpAll(judgement_.failure);
        written.set_value();
      }).detach();
      static_cast<void>(written.get_future().wait_for(kRecordTime));
    } catch (const std::system_error&) {
      // No thread is left to write with.
    }
    std::_Exit(static_cast<int>(ExitCode::kCommunication));
  }

  int rank_;
  std::shared_ptr<Heartbeat> heartbeat_;
  std::shared_ptr<FlightRecords> records_;
  WatchTimes times_;
  HeartbeatSocket socket_;
  FileDescriptor stop_;
  WakingClock clock_;
  Watchdog watchdog_;
  Heartbeat::Judgement judgement_;
  std::string note_;
  int32_t note_number_ = 0;
  int64_t count_ = 0;
  double failed_at_ = -1;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<HeartbeatService> HeartbeatService::Start(Communicator& world,
                                                          const CommunicatorOptions& options,
                                                          uint16_t port) {
  HeartbeatSocket socket(static_cast<uint16_t>(world.is_root() ? port : 0));
  HeartbeatMeeting meeting;
  if (world.is_root() && socket.is_open()) meeting = socket.MakeMeeting();
  world.Broadcast(&meeting, sizeof(meeting), 0);
  if (!socket.is_open() || meeting.port == 0) {
    LogWarning(
        "no heartbeats: this rank or rank 0 can open no socket (UDP); ranks are judged by "
        "their waits alone");
    return nullptr;
  }
  socket.Join(meeting, world.rank(), world.size());
  return std::make_unique<HeartbeatThread>(world, options, std::move(socket));
}

}  // namespace dtrain::internal
