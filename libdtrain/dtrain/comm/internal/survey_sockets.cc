// survey_sockets.cc - opens the sockets, sends and receives without waiting.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/survey_sockets.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace dtrain::internal {
namespace {

// A bound socket whose packets no router cuts into pieces, or -1. Port 0: any.
int OpenWholeSocket(int family, uint16_t port) {
  const int descriptor = ::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  KeepPacketsWhole(descriptor, family);
  const int yes = 1;
  if (family == AF_INET6) {
    ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
  }
  const SocketAddress any = SocketAddress::Any(family, port);
  if (::bind(descriptor, any.get(), any.length()) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

}  // namespace

SurveySockets::SurveySockets(uint16_t port)
    : v4_(OpenWholeSocket(AF_INET, port)),
      v6_(OpenWholeSocket(AF_INET6, port)),
      buffer_(1 << 16, '\0') {}

SurveySockets::~SurveySockets() {
  for (const int descriptor : {v4_, v6_}) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

bool SurveySockets::Send(const std::string& text, const SocketAddress& to) const {
  const int descriptor = to.is_v4() ? v4_ : v6_;
  return ::sendto(descriptor, text.data(), text.size(), MSG_NOSIGNAL, to.get(), to.length()) >= 0 ||
         errno != EMSGSIZE;
}

std::optional<std::pair<std::string, SocketAddress>> SurveySockets::Receive() {
  for (const int descriptor : {v4_, v6_}) {
    SocketAddress from;
    const ssize_t bytes = ::recvfrom(descriptor, buffer_.data(), buffer_.size(), 0, from.get(),
                                     from.mutable_length());
    if (bytes >= 0) return std::pair(buffer_.substr(0, static_cast<size_t>(bytes)), from);
  }
  return std::nullopt;
}

}  // namespace dtrain::internal
