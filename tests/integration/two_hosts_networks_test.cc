// two_hosts_networks_test.cc - several networks, tunnels, firewalls, IPv6 and lost large packets.
// SPDX-License-Identifier: Apache-2.0
//
// Skipped with a word where namespaces are not allowed.
#include <cstdint>
#include <fstream>
#include <sstream>

#include "integration/two_hosts.h"

namespace dtrain {
namespace {

using Catch::Contains;

#ifdef DTRAIN_TEST_TOOL
constexpr const char* kTool = DTRAIN_TEST_TOOL;
#else
constexpr const char* kTool = "dtrain";
#endif

// Hosts with a network of that kind (two_hosts.sh), or null.
std::unique_ptr<TwoHosts> StartWith(const std::string& verb, const std::string& more = "") {
  std::unique_ptr<TwoHosts> hosts = TwoHosts::Start();
  if (!hosts) return nullptr;
  const Outcome outcome = RunCommand(hosts->Script(verb) + " " + more);
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  return hosts;
}

// Bytes that host a has sent so far through a card.
int64_t SentThrough(const TwoHosts& hosts, const std::string& card) {
  std::istringstream lines(RunCommand(hosts.Script("on") + " a cat /proc/net/dev").output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name != card + ":") continue;
    int64_t number = 0;
    for (int i = 0; i < 9; ++i) words >> number;  // eight of received packets, then bytes sent
    return number;
  }
  return -1;
}

// dtrain doctor on host a without mpirun.
Outcome DoctorOfHosts(const TwoHosts& hosts) {
  return RunCommand(hosts.Script("on") + " a " + kTool + " doctor --hosts=a,b");
}

// Training ends well, and what host a sends in doctor's measurements goes through `card`, not
// through `other`. Open MPI sends small messages through one card anyway, and doctor large ones.
void CheckSendsThrough(const TwoHosts& hosts, const std::string& card, const std::string& other) {
  const ToyProgram toy;
  const Outcome training = RunCommand(hosts.Command(toy, toy.Corpus()));
  INFO(training.output);
  CHECK(training.exit_code == 0);
  CHECK(toy.HasCheckpoint(20));
  const int64_t before = SentThrough(hosts, card);
  const int64_t before_other = SentThrough(hosts, other);
  const Outcome doctor =
      RunCommand(hosts.OnBoth() + kTool + " doctor --largest_mib=16 --dir=" + toy.File(""));
  INFO(doctor.output);
  CHECK(doctor.exit_code == 0);
  CHECK_THAT(doctor.output, Contains("a sends through " + card));
  const int64_t sent = SentThrough(hosts, card) - before;
  const int64_t sent_other = SentThrough(hosts, other) - before_other;
  WARN(sent << " bytes through " << card << ", " << sent_other << " through " << other);
  CHECK(sent > 20 * sent_other);
}

TEST_CASE("of two networks that reach all hosts the faster one carries the gradients") {
  if (LacksOpenMpi("the choice of networks")) return;
  const auto hosts = StartWith("second");
  if (hosts) CheckSendsThrough(*hosts, "eth1", "eth0");
}

TEST_CASE("a faster network that does not lead to the other host is not used") {
  if (LacksOpenMpi("the choice of networks")) return;
  const auto hosts = StartWith("second");
  if (!hosts) return;
  REQUIRE(RunCommand(hosts->Script("on") + " b ip addr flush dev eth1").exit_code == 0);
  CheckSendsThrough(*hosts, "eth0", "eth1");
}

TEST_CASE("a tunnel beside a network carries nothing") {
  if (LacksOpenMpi("the choice of networks")) return;
  const auto hosts = StartWith("vpn");
  if (hosts) CheckSendsThrough(*hosts, "eth0", "wg0");
}

TEST_CASE("hosts that reach each other by a tunnel alone train through it") {
  if (LacksOpenMpi("the choice of networks")) return;
  const auto hosts = StartWith("apart");
  if (!hosts) return;
  CheckSendsThrough(*hosts, "wg0", "eth0");
  // Open MPI 5 says the hosts on mpirun's own host only. Without this variable, so does Open MPI 4.
  const ToyProgram toy;
  const Outcome untold =
      RunCommand(hosts->OnBoth() + "env -u OMPI_MCA_orte_node_regex " DTRAIN_TEST_PROGRAM " " +
                 toy.Arguments(toy.Corpus()));
  INFO(untold.output);
  CHECK(untold.exit_code == 0);
  CHECK(toy.HasCheckpoint(20));
  const Outcome outcome = DoctorOfHosts(*hosts);
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.output, Contains("wg0 10.79.0.1"));
}

TEST_CASE("hosts without IPv4 train, and a rank that is stopped falls silent") {
  const auto hosts = StartWith("ipv6");
  if (!hosts) return;
  const Outcome doctor = DoctorOfHosts(*hosts);
  INFO(doctor.output);
  CHECK(doctor.exit_code == 0);
  CHECK_THAT(doctor.output, Contains("fd77::2"));
  LongRun run(*hosts, "run.comm_timeout=12s");
  const std::vector<pid_t> ranks = hosts->RanksOn("b", run.toy());
  REQUIRE(ranks.size() == 2);
  REQUIRE(::kill(ranks[1], SIGSTOP) == 0);
  const Outcome outcome = run.CheckEnds(25);
  ::kill(ranks[1], SIGCONT);
  INFO(outcome.output);
  CHECK_THAT(outcome.output, Contains("is silent: stopped, dead or cut off"));
}

TEST_CASE("a firewall that lets mpirun start nothing is named within 30 s, by doctor as well") {
  if (LacksOpenMpi("contrib/dtrain-mpirun's watch")) return;
  const auto hosts = StartWith("firewall");
  if (!hosts) return;
  const std::string sentence =
      "no answer from host b (10.77.0.2) on TCP port 47113 within 4 s, from host a, eth0 "
      "(10.77.0.1): a firewall drops it, or the host is down; open all TCP and UDP ports";
  const Outcome doctor = DoctorOfHosts(*hosts);
  INFO(doctor.output);
  CHECK(doctor.exit_code == 6);
  CHECK(doctor.seconds < 15);
  CHECK_THAT(doctor.output, Contains(sentence) && Contains("btl_tcp_port_min_v4"));
  const ToyProgram toy;
  Job job("exec timeout --signal=KILL 30 " +
          hosts->Command(toy, toy.Corpus(),
                         "env PATH=" + std::filesystem::path(kTool).parent_path().string() +
                             ":$PATH " DTRAIN_TEST_LAUNCHER));
  const Outcome outcome = job.Wait(40);
  INFO(outcome.output);
  CHECK_THAT(outcome.output, Contains("mpirun has started no rank after 15 s: " + sentence));
}

TEST_CASE("a firewall between the ranks is named within 30 s, with the setting that helps") {
  if (LacksOpenMpi("settings of Open MPI for ports")) return;
  const auto hosts = StartWith("firewall", "51000-51999");
  if (!hosts) return;
  const ToyProgram toy;
  const Outcome outcome = RunCommand(
      hosts->Command(toy, toy.Corpus(),
                     DTRAIN_TEST_MPIEXEC " --mca oob_tcp_dynamic_ipv4_ports 51000-51999 -x "
                                         "DTRAIN_COMM_TIMEOUT=28"));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 6);
  CHECK(outcome.seconds < 40);
  CHECK_THAT(outcome.output,
             Contains("MPI has not started after 14 s: no answer from host b (10.77.0.2) on TCP "
                      "port 47113 within 4 s, from host a, eth0 (10.77.0.1)") &&
                 Contains("--mca btl_tcp_port_min_v4 50000"));
}

TEST_CASE("a job trains through the ports that the advice says to open") {
  if (LacksOpenMpi("settings of Open MPI for ports")) return;
  const auto hosts = StartWith("firewall", "50000-52001");
  if (!hosts) return;
  const ToyProgram toy;
  const Outcome outcome = RunCommand(
      hosts->Command(toy, toy.Corpus(),
                     DTRAIN_TEST_MPIEXEC
                     " --mca btl_tcp_port_min_v4 50000 --mca btl_tcp_port_range_v4 1000 --mca "
                     "oob_tcp_dynamic_ipv4_ports 51000-51999 -x DTRAIN_PORT=52000"));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK(toy.HasCheckpoint(20));
}

TEST_CASE("a network that loses large packets is named, and left out beside another one") {
  if (LacksOpenMpi("the choice of networks")) return;
  const auto hosts = StartWith("second");
  if (!hosts) return;
  REQUIRE(RunCommand(hosts->Script("mtu") + " eth1").exit_code == 0);
  const ToyProgram toy;
  const std::string sentence =
      "packets of 9000 bytes from host a, eth1 (10.78.0.1), do not reach host b (10.78.0.2)";
  // mpirun's own connections would use eth1, too.
  const std::string mpirun = DTRAIN_TEST_MPIEXEC " --mca oob_tcp_if_include eth0";
  const Outcome outcome = RunCommand(hosts->Command(toy, toy.Corpus(), mpirun));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.output, Contains(sentence) && Contains("ip link set eth1 mtu 1500") &&
                                 Contains("this job leaves eth1 out"));
  const ToyProgram second;
  const Outcome chosen =
      RunCommand(hosts->Command(second, second.Corpus() + " run.comm_timeout=10s",
                                mpirun + " --mca btl_tcp_if_include eth1"));
  INFO(chosen.output);
  CHECK(chosen.exit_code != 0);
  CHECK(chosen.seconds < 30);
  CHECK_THAT(chosen.output, Contains(sentence) && !Contains("leaves eth1 out"));
}

TEST_CASE("doctor without mpirun names a network that loses large packets") {
  const auto hosts = StartWith("mtu", "eth0");
  if (!hosts) return;
  const Outcome outcome = DoctorOfHosts(*hosts);
  INFO(outcome.output);
  CHECK(outcome.exit_code == 6);
  CHECK(outcome.seconds < 15);
  CHECK_THAT(outcome.output,
             Contains("packets of 9000 bytes from host a, eth0 (10.77.0.1), do not reach host b "
                      "(10.77.0.2), though small ones do"));
}

}  // namespace
}  // namespace dtrain
