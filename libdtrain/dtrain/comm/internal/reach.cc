// reach.cc - connects to a high port of each host without waiting for one after the other.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/reach.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/job_hosts.h"
#include "dtrain/comm/internal/network_agreement.h"
#include "dtrain/comm/internal/network_interfaces.h"
#include "dtrain/comm/internal/socket_address.h"

namespace dtrain::internal {
namespace {

constexpr size_t kMostTried = 64;
// Linux answers a host's first six packets to closed ports, and then one per second.
constexpr double kSendAgain = 0.3;
constexpr double kPacketSeconds = 1.5;

class Socket {
 public:
  Socket() = default;
  Socket(int family, int type)
      : descriptor_(::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() { Close(); }
  void Close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }
  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  // The error that the system has noted, or 0.
  int TakeError() const {
    int error = 0;
    socklen_t length = sizeof(error);
    ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
  }

 private:
  int descriptor_ = -1;
};

// A host that is being tried.
struct Trial {
  HostReach reach;
  SocketAddress address = {};
  Socket socket = {};
  int64_t packet_bytes = 0;  // of the interface's largest packets
};

std::string Way(const HostReach& reach, std::string_view self) {
  if (reach.local.empty()) return absl::StrFormat("host %s", self);
  return absl::StrFormat("host %s, %s (%s)", self,
                         reach.interface.empty() ? "an interface" : reach.interface, reach.local);
}

std::string ProblemOf(const HostReach& reach, int error, std::string_view self,
                      const ReachOptions& options) {
  switch (error) {
    case 0:
    case ECONNREFUSED:
      return "";
    case ENETUNREACH:
    case EHOSTUNREACH:
      return absl::StrFormat(
          "there is no route from %s to host %s (%s): is its cable or network "
          "down?",
          Way(reach, self), reach.host, reach.address);
    case ETIMEDOUT:
      return absl::StrFormat(
          "no answer from host %s (%s) on TCP port %d within %g s, from %s: a firewall drops it, "
          "or the host is down%s",
          reach.host, reach.address, options.port, options.seconds, Way(reach, self),
          options.advice.empty() ? "" : "; " + options.advice);
    default:
      return absl::StrFormat("host %s (%s), from %s: %s", reach.host, reach.address,
                             Way(reach, self), std::strerror(error));
  }
}

// The interface on the way, and its largest packet.
void FindInterface(const std::vector<NetworkInterface>& interfaces, Trial& trial) {
  trial.reach.local = LocalAddressFor(trial.address);
  for (const NetworkInterface& interface : interfaces) {
    const auto& addresses = interface.addresses;
    if (std::count(addresses.begin(), addresses.end(), trial.reach.local) == 0) continue;
    trial.reach.interface = interface.name;
    trial.packet_bytes = interface.mtu;
  }
}

// Begins to connect; what fails at once is a problem already.
Trial Begin(const std::string& host, const std::string& self,
            const std::vector<NetworkInterface>& interfaces, const ReachOptions& options) {
  Trial trial{.reach = {.host = host}};
  const std::vector<SocketAddress> addresses = Resolve(host, options.port);
  if (addresses.empty()) {
    trial.reach.problem = absl::StrFormat(
        "host %s does not know the name %s: add it to /etc/hosts or to the DNS", self, host);
    return trial;
  }
  trial.address = addresses.front();
  trial.reach.address = trial.address.Text();
  if (trial.address.IsLoopback()) {
    trial.reach.problem = absl::StrFormat(
        "on host %s the name %s means %s, which is that host itself: give it its real address in "
        "/etc/hosts",
        self, host, trial.reach.address);
    return trial;
  }
  FindInterface(interfaces, trial);
  trial.socket = Socket(trial.address.family(), SOCK_STREAM);
  if (!trial.socket.is_open()) return trial;
  const bool is_done =
      ::connect(trial.socket.descriptor(), trial.address.get(), trial.address.length()) == 0;
  const int error = is_done ? 0 : errno;
  if (is_done || error != EINPROGRESS) {
    trial.reach.problem = ProblemOf(trial.reach, error, self, options);
    trial.socket.Close();
  }
  return trial;
}

// Calls `ready` with each trial whose socket has something, until all are closed or time is over.
void WaitFor(std::vector<Trial>& trials, short events, double seconds,
             const std::function<void(Trial&)>& ready) {
  const Timer timer;
  for (;;) {
    std::vector<pollfd> open;
    for (const Trial& trial : trials) {
      if (!trial.socket.is_open()) continue;
      open.push_back({.fd = trial.socket.descriptor(), .events = events, .revents = 0});
    }
    const double left = seconds - timer.Seconds();
    if (open.empty() || left <= 0) return;
    ::poll(open.data(), open.size(), static_cast<int>(left * 1000) + 1);
    for (const pollfd& found : open) {
      if (found.revents == 0) continue;
      ready(*std::find_if(trials.begin(), trials.end(), [&](const Trial& trial) {
        return trial.socket.descriptor() == found.fd;
      }));
    }
  }
}

// Waits until every connection is taken, refused or late.
void Finish(std::vector<Trial>& trials, const std::string& self, const ReachOptions& options) {
  WaitFor(trials, POLLOUT, options.seconds, [&](Trial& trial) {
    trial.reach.problem = ProblemOf(trial.reach, trial.socket.TakeError(), self, options);
    trial.socket.Close();
  });
  for (Trial& trial : trials) {
    if (!trial.socket.is_open()) continue;
    trial.reach.problem = ProblemOf(trial.reach, ETIMEDOUT, self, options);
    trial.socket.Close();
  }
}

// Sends small or largest packets to a closed port of each wanted host. The system of a host that
// gets them answers with an error. Returns for each trial whether that came, or whether the way is
// known to be narrow.
std::vector<bool> TryPackets(std::vector<Trial>& trials, const std::vector<bool>& wanted,
                             bool is_large) {
  std::vector<bool> answers(trials.size(), false);
  for (size_t i = 0; i < trials.size(); ++i) {
    Trial& trial = trials[i];
    if (!wanted[i]) continue;
    trial.socket = Socket(trial.address.family(), SOCK_DGRAM);
    KeepPacketsWhole(trial.socket.descriptor(), trial.address.family());
    // Without a way there is no answer.
    static_cast<void>(
        ::connect(trial.socket.descriptor(), trial.address.get(), trial.address.length()));
  }
  const Timer timer;
  while (timer.Seconds() < kPacketSeconds &&
         std::any_of(trials.begin(), trials.end(),
                     [](const Trial& trial) { return trial.socket.is_open(); })) {
    for (size_t i = 0; i < trials.size(); ++i) {
      Trial& trial = trials[i];
      if (!trial.socket.is_open()) continue;
      const int64_t headers = trial.address.is_v4() ? 28 : 48;
      const std::string text(
          static_cast<size_t>(is_large ? std::max<int64_t>(trial.packet_bytes - headers, 0) : 0),
          '\0');
      const bool is_sent =
          ::send(trial.socket.descriptor(), text.data(), text.size(), MSG_NOSIGNAL) >= 0;
      if (is_sent || (errno != EMSGSIZE && errno != ECONNREFUSED)) continue;
      answers[i] = true;
      trial.socket.Close();
    }
    WaitFor(trials, POLLIN, kSendAgain, [&](Trial& trial) {
      const int error = trial.socket.TakeError();
      answers[static_cast<size_t>(&trial - trials.data())] =
          error == ECONNREFUSED || error == EMSGSIZE;
      trial.socket.Close();
    });
  }
  for (Trial& trial : trials) trial.socket.Close();
  return answers;
}

// Names the hosts that answer small packets alone.
void TryLargePackets(std::vector<Trial>& trials, const std::string& self) {
  std::vector<bool> reached;
  for (const Trial& trial : trials) {
    reached.push_back(trial.reach.problem.empty() && trial.address.is_known());
  }
  const std::vector<bool> small = TryPackets(trials, reached, /*is_large=*/false);
  const std::vector<bool> large = TryPackets(trials, small, /*is_large=*/true);
  for (size_t i = 0; i < trials.size(); ++i) {
    HostReach& reach = trials[i].reach;
    if (!small[i] || large[i] || trials[i].packet_bytes == 0) continue;
    reach.problem = LostPacketsText({.host = reach.host,
                                     .interface = reach.interface,
                                     .local = reach.local,
                                     .address = reach.address,
                                     .lost_bytes = trials[i].packet_bytes},
                                    self);
  }
}

}  // namespace

std::vector<HostReach> TryHosts(const std::vector<std::string>& hosts, const std::string& self,
                                const ReachOptions& options) {
  const std::vector<NetworkInterface> interfaces = ListNetworkInterfaces();
  std::vector<Trial> trials;
  for (const std::string& host : OtherHosts(hosts, self)) {
    if (trials.size() < kMostTried) trials.push_back(Begin(host, self, interfaces, options));
  }
  Finish(trials, self, options);
  TryLargePackets(trials, self);
  std::vector<HostReach> reach;
  for (Trial& trial : trials) reach.push_back(std::move(trial.reach));
  return reach;
}

std::string DescribeProblems(const std::vector<HostReach>& reach) {
  std::string text;
  for (const HostReach& host : reach) {
    if (host.problem.empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", host.problem);
  }
  return text;
}

std::string PortAdvice(std::string_view mpi_version) {
  const std::string open = "open all TCP and UDP ports above 1023 between the hosts, or some: ";
  if (mpi_version.starts_with("MPICH")) {
    return open +
           "TCP 50000-51999 and UDP 52000-52001 with MPIEXEC_PORT_RANGE=50000:50999 "
           "UCX_TCP_PORT_RANGE=51000-51999 DTRAIN_PORT=52000 mpirun ...";
  }
  return open +
         "TCP 50000-51999 and UDP 52000-52001 with mpirun --mca btl_tcp_port_min_v4 50000 "
         "--mca btl_tcp_port_range_v4 1000 --mca oob_tcp_dynamic_ipv4_ports 51000-51999 "
         "-x DTRAIN_PORT=52000 ...";
}

uint16_t PortOfRanks(const GetEnv& get_env) {
  const char* const text = get_env("OMPI_MCA_btl_tcp_port_min_v4");
  int port = 0;
  const bool is_set = text != nullptr && absl::SimpleAtoi(text, &port) && port > 0 && port < 65536;
  return is_set ? static_cast<uint16_t>(port) : ReachOptions{}.port;
}

}  // namespace dtrain::internal
