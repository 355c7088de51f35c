// survey_round.h - one host's part of a survey: whom to ask next, and what follows from answers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_SURVEY_ROUND_H_
#define DTRAIN_COMM_INTERNAL_SURVEY_ROUND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/network_survey.h"
#include "dtrain/comm/internal/socket_address.h"
#include "dtrain/comm/internal/survey_messages.h"
#include "dtrain/comm/internal/survey_sockets.h"

namespace dtrain::internal {

class SurveyRound {
 public:
  // Seconds between two questions to a host that does not answer.
  static constexpr double kAskAgain = 0.05;

  // Sends through `sockets`, which must outlive it.
  SurveyRound(const NetworkSurveyOptions& options, SurveySockets& sockets);

  // Starts to ask the hosts of the job, unless it has.
  void Begin(const std::vector<std::string>& hosts);
  // Sends the questions that are due and concludes as soon as it can. True at the end of the round.
  bool Advance();
  void Learn(const SurveyAnswer& answer, const SocketAddress& from);

  // True while answers are awaited.
  bool is_asking() const { return has_begun_ && !findings_; }
  // The host as its answers describe it.
  const HostNetworks& self() const { return self_; }
  // After the end.
  const NetworkFindings& findings() const { return *findings_; }

 private:
  // Another host. First its name's addresses are asked, then the one that answered.
  struct Peer {
    std::string name;
    std::vector<SocketAddress> addresses = {};
    std::optional<HostNetworks> networks = {};
    bool is_self = false;
  };
  // A way to an address of another host.
  struct Probe {
    NetworkPath path = {};
    SocketAddress address = {};
    int64_t bytes = 0;  // of the largest packet on this way
    bool large_answers = false;
  };

  bool IsThisHost(const Peer& peer) const;
  template <typename Predicate>
  bool AllPeers(const Predicate& predicate) const;
  void AskPeers();
  void MakeProbes();
  // For the address number `i` of their interface.
  void AddProbe(const Peer& peer, const NetworkInterface& theirs, size_t i);
  void SendProbes();
  bool AllProbesAnswer() const;
  // Makes this host's verdict.
  void Conclude();
  bool End(bool is_complete);

  const NetworkSurveyOptions options_;
  SurveySockets& sockets_;
  bool has_begun_ = false;
  HostNetworks self_;
  std::vector<std::string> hosts_;  // of the job, if the names are not too many to send
  std::vector<Peer> peers_;
  std::vector<Probe> probes_;
  Timer timer_;
  double asked_at_ = -1;
  double probed_at_ = -1;
  std::optional<NetworkFindings> findings_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_SURVEY_ROUND_H_
