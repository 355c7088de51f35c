// survey_round.cc - asks for networks, tries the ways, and waits for the verdicts of all hosts.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/survey_round.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/comm/internal/job_hosts.h"
#include "dtrain/comm/internal/network_agreement.h"

namespace dtrain::internal {
namespace {

constexpr double kProbeSeconds = 0.5;    // for answers on ways that may lead nowhere
constexpr double kVerdictSeconds = 1.0;  // for the verdicts of all hosts

// Sizes of the headers of IP and UDP.
int64_t HeaderBytes(const SocketAddress& address) { return address.is_v4() ? 28 : 48; }

std::string RandomId() {
  std::random_device device;
  return absl::StrFormat("%08x%08x", device(), device());
}

// The interface of this host that has an address, or null.
const NetworkInterface* OwnerOf(const std::vector<NetworkInterface>& interfaces,
                                const std::string& address) {
  const auto found =
      std::find_if(interfaces.begin(), interfaces.end(), [&](const NetworkInterface& interface) {
        return std::count(interface.addresses.begin(), interface.addresses.end(), address) > 0;
      });
  return found == interfaces.end() ? nullptr : &*found;
}

}  // namespace

SurveyRound::SurveyRound(const NetworkSurveyOptions& options, SurveySockets& sockets)
    : options_(options), sockets_(sockets) {
  self_ = {.id = RandomId(), .name = options_.self};
  for (const NetworkInterface& interface : options_.interfaces) {
    if (interface.obstacle.empty() || interface.obstacle == kTunnel) {
      self_.interfaces.push_back(interface);
    }
  }
}

void SurveyRound::Begin(const std::vector<std::string>& hosts) {
  if (std::exchange(has_begun_, true)) return;
  // A question with all names must fit into one packet; a host that needs more hears of them from
  // its own launcher or not at all.
  constexpr size_t kMostBytes = 1000;
  if (absl::StrJoin(hosts, ",").size() <= kMostBytes) hosts_ = hosts;
  for (const std::string& host : hosts) {
    Peer peer{.name = host, .addresses = Resolve(host, options_.port)};
    if (IsThisHost(peer)) continue;
    // Nothing is learned from a name that means this host by mistake.
    std::erase_if(peer.addresses, [](const SocketAddress& a) { return a.IsLoopback(); });
    peers_.push_back(std::move(peer));
  }
  timer_.Restart();
}

bool SurveyRound::IsThisHost(const Peer& peer) const {
  // Debian gives a host's own name the address 127.0.1.1.
  const bool is_named = OtherHosts({peer.name}, options_.self).empty();
  return (is_named || !peer.addresses.empty()) &&
         std::all_of(peer.addresses.begin(), peer.addresses.end(), [&](const SocketAddress& a) {
           return OwnerOf(options_.interfaces, a.Text()) != nullptr || (is_named && a.IsLoopback());
         });
}

// Tags are a letter and the number of a peer or a probe: h3 for a host, p7 and l7 for small and
// large packets.
void SurveyRound::Learn(const SurveyAnswer& answer, const SocketAddress& from) {
  size_t number = 0;
  if (answer.tag.empty() || !absl::SimpleAtoi(answer.tag.substr(1), &number)) return;
  const char kind = answer.tag[0];
  if (kind == 'h' && number < peers_.size()) {
    Peer& peer = peers_[number];
    peer.is_self = answer.host.id == self_.id;
    if (!peer.networks) peer.addresses.assign(1, from);
    peer.networks = answer.host;
  } else if (kind == 'p' && number < probes_.size() && answer.host.id != self_.id) {
    // Its large packet is due.
    if (!std::exchange(probes_[number].path.answers, true)) asked_at_ = -1;
  } else if (kind == 'l' && number < probes_.size() && answer.host.id != self_.id) {
    probes_[number].large_answers = true;
  }
}

template <typename Predicate>
bool SurveyRound::AllPeers(const Predicate& predicate) const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [&](const Peer& peer) { return peer.is_self || predicate(peer); });
}

bool SurveyRound::Advance() {
  if (!is_asking()) return findings_.has_value();
  const double now = timer_.Seconds();
  const bool is_time_to_ask = now - asked_at_ >= kAskAgain;
  if (is_time_to_ask) asked_at_ = now;
  const bool all_known = AllPeers([](const Peer& peer) { return peer.networks.has_value(); });
  if (!all_known) {
    if (is_time_to_ask) AskPeers();
    return now > options_.seconds && End(/*is_complete=*/false);
  }
  if (probed_at_ < 0) {
    MakeProbes();
    probed_at_ = now;
    SendProbes();
  } else if (!self_.verdict && is_time_to_ask) {
    SendProbes();
  }
  if (!self_.verdict && (AllProbesAnswer() || now - probed_at_ > kProbeSeconds)) Conclude();
  if (!self_.verdict) return false;
  if (AllPeers([](const Peer& peer) { return peer.networks->verdict.has_value(); })) {
    return End(/*is_complete=*/true);
  }
  if (now - probed_at_ > kProbeSeconds + kVerdictSeconds) return End(/*is_complete=*/false);
  if (is_time_to_ask) AskPeers();
  return false;
}

void SurveyRound::AskPeers() {
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].is_self || (peers_[i].networks && peers_[i].networks->verdict)) continue;
    const SurveyQuestion question{
        .job = options_.job, .tag = absl::StrCat("h", i), .hosts = hosts_};
    for (const SocketAddress& address : peers_[i].addresses) {
      sockets_.Send(WriteQuestion(question, 0), address);
    }
  }
}

void SurveyRound::MakeProbes() {
  for (const Peer& peer : peers_) {
    if (peer.is_self) continue;
    for (const NetworkInterface& theirs : peer.networks->interfaces) {
      for (size_t i = 0; i < theirs.addresses.size(); ++i) {
        if (OwnerOf(options_.interfaces, theirs.addresses[i]) != nullptr) continue;
        AddProbe(peer, theirs, i);
      }
    }
  }
}

void SurveyRound::AddProbe(const Peer& peer, const NetworkInterface& theirs, size_t i) {
  Probe probe{.path = {.host = peer.name, .address = theirs.addresses[i]},
              .address = SocketAddress::Of(theirs.addresses[i], options_.port)};
  probe.path.local = LocalAddressFor(probe.address);
  const NetworkInterface* const mine = OwnerOf(self_.interfaces, probe.path.local);
  // There is no way, or one through a bridge for containers.
  if (mine == nullptr) return;
  const bool is_same =
      std::count(mine->networks.begin(), mine->networks.end(), theirs.networks[i]) > 0;
  probe.path.is_tunnel = mine->obstacle == kTunnel || theirs.obstacle == kTunnel;
  // A tunnel leads to its other ends; what lies behind them is somebody else's.
  if (probe.path.is_tunnel && !is_same) return;
  probe.path.interface = mine->name;
  if (is_same) probe.path.network = theirs.networks[i];
  probe.bytes = theirs.mtu > 0 ? std::min(theirs.mtu, mine->mtu) : mine->mtu;
  probes_.push_back(std::move(probe));
}

void SurveyRound::SendProbes() {
  for (size_t i = 0; i < probes_.size(); ++i) {
    Probe& probe = probes_[i];
    SurveyQuestion question{.job = options_.job, .tag = absl::StrCat("p", i), .hosts = {}};
    if (!probe.path.answers) {
      sockets_.Send(WriteQuestion(question, 0), probe.address);
    } else if (!probe.large_answers) {
      question.tag[0] = 'l';
      const int64_t bytes = std::max<int64_t>(probe.bytes - HeaderBytes(probe.address), 0);
      // A way that the system knows to be narrow is one that TCP copes with.
      probe.large_answers =
          !sockets_.Send(WriteQuestion(question, static_cast<size_t>(bytes)), probe.address);
    }
  }
}

bool SurveyRound::AllProbesAnswer() const {
  return std::all_of(probes_.begin(), probes_.end(),
                     [](const Probe& probe) { return probe.large_answers; });
}

void SurveyRound::Conclude() {
  std::vector<std::string> others;
  for (const Peer& peer : peers_) {
    if (!peer.is_self) others.push_back(peer.name);
  }
  std::vector<NetworkPath> paths;
  for (Probe& probe : probes_) {
    if (probe.path.answers && !probe.large_answers) probe.path.lost_bytes = probe.bytes;
    paths.push_back(probe.path);
  }
  self_.verdict = VerdictOf(paths, others);
}

bool SurveyRound::End(bool is_complete) {
  NetworkFindings& findings = findings_.emplace();
  findings.is_complete = is_complete;
  findings.own = self_.verdict.value_or(NetworkVerdict{});
  for (const Probe& probe : probes_) findings.paths.push_back(probe.path);
  for (const Peer& peer : peers_) {
    if (peer.is_self || !peer.networks) continue;
    findings.hosts.push_back(*peer.networks);
    findings.hosts.back().name = peer.name;
  }
  return true;
}

}  // namespace dtrain::internal
