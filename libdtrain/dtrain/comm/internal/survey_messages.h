// survey_messages.h - the datagrams by which the hosts of a job tell each other their networks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_SURVEY_MESSAGES_H_
#define DTRAIN_COMM_INTERNAL_SURVEY_MESSAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/comm/internal/network_interfaces.h"

namespace dtrain::internal {

// The conclusion of a host that has tried all ways to all other hosts.
struct NetworkVerdict {
  // Networks, "10.77.0.0/24", over which every other host answers, also to the largest packets.
  std::vector<std::string> good = {};
  // Some host answers over tunnels alone.
  bool needs_tunnel = false;
};

// A host's word about itself.
struct HostNetworks {
  std::string id = {};  // a random number: names and addresses may be the same on two hosts
  std::string name = {};
  // Without those that containers use.
  std::vector<NetworkInterface> interfaces = {};
  std::optional<NetworkVerdict> verdict = {};
};

// A question comes back with its tag and the answer. `hosts` are those of the job as the sender
// knows them, for hosts whose launcher does not say them.
struct SurveyQuestion {
  std::string job = {};
  std::string tag = {};
  std::vector<std::string> hosts = {};
};

struct SurveyAnswer {
  std::string job = {};
  std::string tag = {};
  HostNetworks host = {};
};

// The text of a question, filled up to `bytes`.
std::string WriteQuestion(const SurveyQuestion& question, size_t bytes);
std::optional<SurveyQuestion> ReadQuestion(std::string_view text);

// The text of an answer. It fits into any network's packets: interfaces beyond that are left out.
std::string WriteAnswer(const SurveyAnswer& answer);
std::optional<SurveyAnswer> ReadAnswer(std::string_view text);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_SURVEY_MESSAGES_H_
