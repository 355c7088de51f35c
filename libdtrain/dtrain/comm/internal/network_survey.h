// network_survey.h - the hosts of a job try all ways between them, before MPI chooses networks.
// SPDX-License-Identifier: Apache-2.0
//
// The first rank of each host has a UDP port that all ranks of the job can work out. There it says
// which networks its host has, and answers each packet, so that other hosts find out which ways
// lead to it and carry large packets. At the end the hosts tell each other what they found: a
// choice rests only on what all of them have seen.
#ifndef DTRAIN_COMM_INTERNAL_NETWORK_SURVEY_H_
#define DTRAIN_COMM_INTERNAL_NETWORK_SURVEY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/comm/internal/network_interfaces.h"
#include "dtrain/comm/internal/survey_messages.h"
#include "dtrain/comm/launch.h"

namespace dtrain::internal {

// A way from one interface of this host to an address of another one.
struct NetworkPath {
  std::string host = {};       // the other one's name
  std::string interface = {};  // of this host
  std::string local = {};      // its address on this way
  std::string address = {};    // of the other host
  std::string network = {};    // of both addresses, or "" if the way leads through a router
  bool is_tunnel = false;
  bool answers = false;    // small packets come through
  int64_t lost_bytes = 0;  // size of packets that do not though small ones do, or 0
};

struct NetworkFindings {
  // All hosts have answered and said their verdicts.
  bool is_complete = false;
  std::vector<HostNetworks> hosts = {};  // the others that have answered, by the names asked for
  std::vector<NetworkPath> paths = {};
  NetworkVerdict own = {};
};

struct NetworkSurveyOptions {
  std::string job = {};                 // JobName()
  std::string self = {};                // this host's name
  std::vector<std::string> hosts = {};  // of the job; empty if nobody says them here
  bool has_others = false;              // the job has other hosts, which may know them all
  std::vector<NetworkInterface> interfaces = {};
  uint16_t port = 0;   // SurveyPort()
  double seconds = 3;  // to wait for the first answer of all hosts
};

class NetworkSurvey {
 public:
  // Answers from now on, and begins to ask if it knows the hosts or hears of them.
  static std::unique_ptr<NetworkSurvey> Start(const NetworkSurveyOptions& options);
  virtual ~NetworkSurvey() = default;
  // False if the port is taken: by another rank of this host, or another program.
  virtual bool is_open() const = 0;
  // Waits until the survey is over, up to about 1.5 s more than `seconds`. A host that knows no
  // others but has some waits up to `seconds` for one that asks. Over at once if it has none.
  virtual NetworkFindings Wait() = 0;
  // Tells other ranks of this host which interfaces are used, by AskChoice().
  virtual void Publish(const std::vector<NetworkInterface>& interfaces) = 0;
};

// Returns the names of the interfaces that the first rank of this host published, or nothing if it
// does not within `seconds`.
std::optional<std::vector<std::string>> AskChoice(const std::string& job, uint16_t port,
                                                  double seconds);

// Returns a text that all ranks of this job have and no other job has, or "" if the launcher gives
// none.
std::string JobName(const GetEnv& get_env);
// Returns DTRAIN_PORT + 1, or a port below those that Linux gives to programs.
uint16_t SurveyPort(const std::string& job, const GetEnv& get_env);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NETWORK_SURVEY_H_
