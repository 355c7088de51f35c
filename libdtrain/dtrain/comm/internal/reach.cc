// reach.cc - connects to a high port of each host without waiting for one after the other.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/reach.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dtrain::internal {
namespace {

constexpr size_t kMostTried = 64;
// Of the range from which Linux takes ports for outgoing connections, and Open MPI its own.
constexpr uint16_t kHighPort = 47113;

// A host that is being tried.
struct Trial {
  HostReach reach;
  int descriptor = -1;
};

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

std::string NumericName(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  const int error =
      ::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "";
}

// The part of a host's name before the first dot.
std::string_view ShortName(std::string_view name) { return name.substr(0, name.find('.')); }

std::string ProblemOf(const HostReach& reach, int error, double seconds) {
  switch (error) {
    case 0:
    case ECONNREFUSED:
      return "";
    case ENETUNREACH:
    case EHOSTUNREACH:
      return absl::StrFormat("there is no route to %s (%s): is its cable or network down?",
                             reach.host, reach.address);
    case ETIMEDOUT:
      return absl::StrFormat(
          "no answer from %s (%s) on TCP port %d within %g s, from %s here: a firewall drops it, "
          "or the host is down; ranks need all TCP ports above 1023 between the hosts",
          reach.host, reach.address, kHighPort, seconds,
          reach.local.empty() ? "no address" : reach.local);
    default:
      return absl::StrFormat("%s (%s): %s", reach.host, reach.address, std::strerror(error));
  }
}

// Begins to connect; what fails at once is a problem already.
Trial Begin(const std::string& host) {
  Trial trial{.reach = {.host = host, .address = "", .local = "", .problem = ""}};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    trial.reach.problem =
        absl::StrFormat("the name %s is unknown here (%s): add it to /etc/hosts or to the DNS",
                        host, ::gai_strerror(error));
    return trial;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  trial.reach.address = NumericName(found->ai_addr, found->ai_addrlen);
  if (IsLoopback(found->ai_addr)) {
    trial.reach.problem = absl::StrFormat(
        "the name %s means %s here, which is this host itself: give it its real address in "
        "/etc/hosts",
        host, trial.reach.address);
    return trial;
  }
  trial.descriptor = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (trial.descriptor < 0) return trial;
  if (found->ai_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(found->ai_addr)->sin_port = htons(kHighPort);
  } else {
    reinterpret_cast<sockaddr_in6*>(found->ai_addr)->sin6_port = htons(kHighPort);
  }
  const bool is_done = ::connect(trial.descriptor, found->ai_addr, found->ai_addrlen) == 0;
  const int connect_error = is_done ? 0 : errno;
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  if (::getsockname(trial.descriptor, reinterpret_cast<sockaddr*>(&own), &length) == 0) {
    trial.reach.local = NumericName(reinterpret_cast<const sockaddr*>(&own), length);
  }
  if (is_done || connect_error != EINPROGRESS) {
    trial.reach.problem = ProblemOf(trial.reach, connect_error, 0);
    ::close(trial.descriptor);
    trial.descriptor = -1;
  }
  return trial;
}

void End(Trial& trial, int error, double seconds) {
  trial.reach.problem = ProblemOf(trial.reach, error, seconds);
  ::close(trial.descriptor);
  trial.descriptor = -1;
}

// Waits until every connection is taken, refused or late.
void Finish(std::vector<Trial>& trials, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    std::vector<pollfd> open;
    for (const Trial& trial : trials) {
      if (trial.descriptor >= 0)
        open.push_back({.fd = trial.descriptor, .events = POLLOUT, .revents = 0});
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (open.empty() || left.count() <= 0) break;
    ::poll(open.data(), open.size(), static_cast<int>(left.count()));
    for (const pollfd& ready : open) {
      if (ready.revents == 0) continue;
      const auto trial = std::find_if(trials.begin(), trials.end(),
                                      [&](const Trial& t) { return t.descriptor == ready.fd; });
      int error = 0;
      socklen_t length = sizeof(error);
      ::getsockopt(ready.fd, SOL_SOCKET, SO_ERROR, &error, &length);
      End(*trial, error, seconds);
    }
  }
  for (Trial& trial : trials) {
    if (trial.descriptor >= 0) End(trial, ETIMEDOUT, seconds);
  }
}

}  // namespace

std::vector<HostReach> TryHosts(const std::vector<std::string>& hosts, std::string_view self,
                                double seconds) {
  std::vector<Trial> trials;
  for (const std::string& host : hosts) {
    if (ShortName(host) == ShortName(self) || host == "localhost") continue;
    if (trials.size() < kMostTried) trials.push_back(Begin(host));
  }
  Finish(trials, seconds);
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

}  // namespace dtrain::internal
