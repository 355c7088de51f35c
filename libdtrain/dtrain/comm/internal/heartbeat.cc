// heartbeat.cc - one socket and one thread per process, a star around rank 0.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/heartbeat.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
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
#include "dtrain/comm/internal/flight_recorder.h"
#include "dtrain/comm/internal/job_watch.h"

namespace dtrain::internal {
namespace {

using Token = std::array<unsigned char, 16>;

// A rank whose thread does not come back to its collectives is ended so long after the verdict.
constexpr double kGraceSeconds = 3;
// For its record of the last collectives: a disk may be what does not answer.
constexpr std::chrono::seconds kRecordTime(1);

struct Message {
  Token token{};
  Beat beat;
  // Of rank 0 alone.
  int32_t note_number = 0;
  bool watched = false;  // every rank is heard
  bool is_failure = false;
  std::array<char, 900> text{};  // the note of that number, or the failure; only its start is sent
};

// Where rank 0 listens, as the others get it.
struct Meeting {
  Token token{};
  uint16_t port = 0;  // network byte order; 0: rank 0 has no socket
  int32_t count = 0;
  std::array<in_addr, 16> addresses{};
};

// Stands still while the process does: a job that was suspended has not been silent.
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

sockaddr_in AddressOf(in_addr host, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr = host;
  address.sin_port = port;
  return address;
}

// A bound socket, or -1.
int OpenSocket() {
  const int descriptor = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const sockaddr_in any = AddressOf({.s_addr = INADDR_ANY}, 0);
  if (descriptor < 0 ||
      ::bind(descriptor, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0) {
    return descriptor;
  }
  ::close(descriptor);
  return -1;
}

Meeting MakeMeeting(int socket) {
  Meeting meeting;
  if (::getrandom(meeting.token.data(), meeting.token.size(), 0) !=
      static_cast<ssize_t>(meeting.token.size())) {
    return meeting;
  }
  sockaddr_in bound{};
  socklen_t length = sizeof(bound);
  ifaddrs* interfaces = nullptr;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &length) != 0 ||
      ::getifaddrs(&interfaces) != 0) {
    return meeting;
  }
  meeting.port = bound.sin_port;
  for (const ifaddrs* i = interfaces; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_UP) == 0 ||
        meeting.count == static_cast<int32_t>(meeting.addresses.size())) {
      continue;
    }
    meeting.addresses[static_cast<size_t>(meeting.count++)] =
        reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr;
  }
  ::freeifaddrs(interfaces);
  return meeting;
}

int64_t CpuMilliseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000;
}

std::vector<int> WatchedBy(const Communicator& world) {
  std::vector<int> ranks(world.is_root() ? static_cast<size_t>(world.size()) : 1);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<std::string> HostsOf(const Communicator& world) {
  std::vector<std::string> hosts;
  for (int r = 0; r < world.size(); ++r) hosts.push_back(world.host(r));
  return hosts;
}

class SocketHeartbeat final : public Heartbeat {
 public:
  SocketHeartbeat(Communicator& world, const CommunicatorOptions& options, int socket,
                  const Meeting& meeting)
      : rank_(world.rank()),
        pulse_(world.shared_pulse()),
        records_(world.shared_records()),
        times_(options),
        meeting_(meeting),
        socket_(socket),
        stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        clock_(2 * times_.beat),
        watch_(HostsOf(world), WatchedBy(world), times_),
        peers_(static_cast<size_t>(world.is_root() ? world.size() : 1)) {
    // Signals are the other threads' business.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { Run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~SocketHeartbeat() override {
    const uint64_t one = 1;
    while (::write(stop_.get(), &one, sizeof(one)) < 0) {
    }
    thread_.join();
    // A datagram may get lost.
    for (int i = 0; i < 3; ++i) Send(MakeMessage(/*leaving=*/true));
  }

 private:
  void Run() {
    Timer since_beat;
    std::array<pollfd, 2> waits = {pollfd{.fd = socket_.get(), .events = POLLIN, .revents = 0},
                                   pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    Tick();
    for (;;) {
      const double left = times_.beat - since_beat.Seconds();
      if (left > 0) {
        ::poll(waits.data(), waits.size(), static_cast<int>(left * 1000) + 1);
      }
      if ((waits[1].revents & POLLIN) != 0) return;
      // All that has arrived before anything is decided: this thread may have slept for long.
      const double now = clock_.Now();
      while (Receive(now)) {
      }
      if (since_beat.Seconds() < times_.beat) continue;
      since_beat.Restart();
      Tick();
    }
  }

  void Tick() {
    const double now = clock_.Now();
    Message message = MakeMessage(/*leaving=*/false);
    if (rank_ == 0) watch_.Hear(message.beat, now);
    const Findings findings =
        rank_ == 0 ? watch_.Look(now, [this](int64_t n) { return pulse_->DigestAfter(n); })
                   : watch_.LookForSilence(now);
    if (!findings.note.empty()) {
      LogWarning(findings.note);
      note_ = findings.note;
      ++note_number_;
    }
    if (rank_ == 0) judgement_.watched = findings.complete;
    if (judgement_.failure.empty()) judgement_.failure = findings.failure;
    pulse_->Judge(judgement_);
    if (rank_ == 0) Fill(message);
    Send(message);
    EndWhereStuck(now);
  }

  Message MakeMessage(bool leaving) {
    const Pulse::State state = pulse_->Read();
    Message message;
    message.token = meeting_.token;
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

  void Fill(Message& message) const {
    message.note_number = note_number_;
    message.watched = judgement_.watched;
    message.is_failure = !judgement_.failure.empty();
    const std::string& text = message.is_failure ? judgement_.failure : note_;
    std::strncpy(message.text.data(), text.c_str(), message.text.size() - 1);
  }

  void Send(const Message& message) const {
    for (const std::optional<sockaddr_in>& peer : peers_) {
      if (peer) SendTo(*peer, message);
    }
    if (rank_ == 0 || peers_[0]) return;
    // Which of its addresses reaches rank 0 is known when it has answered.
    for (int i = 0; i < meeting_.count; ++i) {
      SendTo(AddressOf(meeting_.addresses[static_cast<size_t>(i)], meeting_.port), message);
    }
  }

  void SendTo(const sockaddr_in& address, const Message& message) const {
    const size_t bytes = offsetof(Message, text) + std::strlen(message.text.data()) + 1;
    // What does not get through counts as silence.
    static_cast<void>(::sendto(socket_.get(), &message, bytes, MSG_NOSIGNAL,
                               reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
  }

  // False when nothing has arrived.
  bool Receive(double now) {
    Message message;
    sockaddr_in from{};
    socklen_t length = sizeof(from);
    const ssize_t bytes = ::recvfrom(socket_.get(), &message, sizeof(message), 0,
                                     reinterpret_cast<sockaddr*>(&from), &length);
    if (bytes < 0) return false;
    if (static_cast<size_t>(bytes) <= offsetof(Message, text) || message.token != meeting_.token) {
      return true;
    }
    const int sender = message.beat.rank;
    if (sender < 0 || sender >= static_cast<int>(peers_.size()) || sender == rank_) return true;
    message.text.back() = '\0';
    message.beat.collective.back() = '\0';
    peers_[static_cast<size_t>(sender)] = from;
    watch_.Hear(message.beat, now);
    if (rank_ != 0) Obey(message);
    return true;
  }

  // What rank 0 says.
  void Obey(const Message& message) {
    judgement_.watched = message.watched && !message.beat.leaving;
    if (message.is_failure) {
      if (judgement_.failure.empty()) judgement_.failure = message.text.data();
    } else if (message.note_number > note_number_) {
      note_number_ = message.note_number;
      LogInfo(std::string("rank 0 says: ") + message.text.data());
    }
    pulse_->Judge(judgement_);
  }

  // The thread that trains ends the job itself where it can; MPI may be stuck as well as it.
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
  std::shared_ptr<Pulse> pulse_;
  std::shared_ptr<FlightRecords> records_;
  WatchTimes times_;
  Meeting meeting_;
  FileDescriptor socket_;
  FileDescriptor stop_;
  WakingClock clock_;
  JobWatch watch_;
  std::vector<std::optional<sockaddr_in>> peers_;  // where each rank's last beat came from
  Pulse::Judgement judgement_;
  std::string note_;
  int32_t note_number_ = 0;
  int64_t count_ = 0;
  double failed_at_ = -1;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Heartbeat> Heartbeat::Start(Communicator& world,
                                            const CommunicatorOptions& options) {
  const int socket = OpenSocket();
  Meeting meeting;
  if (world.is_root() && socket >= 0) meeting = MakeMeeting(socket);
  world.Broadcast(&meeting, sizeof(meeting), 0);
  if (socket < 0 || meeting.port == 0) {
    LogWarning(
        "no heartbeats: this rank or rank 0 can open no socket (UDP); ranks are judged by "
        "their waits alone");
    if (socket >= 0) ::close(socket);
    return nullptr;
  }
  return std::make_unique<SocketHeartbeat>(world, options, socket, meeting);
}

}  // namespace dtrain::internal
