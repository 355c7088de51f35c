// network_choice_test.cc - which network interfaces MPI and NCCL may use, and who decides.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/network_choice.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using internal::ChooseNetwork;
using internal::ChooseSharedMemory;
using internal::NetworkChoice;
using internal::NetworkInterface;
using internal::ObstacleOf;

using Variables = std::map<std::string, std::string>;

GetEnv Table(Variables table) {
  return [table = std::move(table)](const char* name) -> const char* {
    const auto it = table.find(name);
    return it == table.end() ? nullptr : it->second.c_str();
  };
}

Variables VariablesOf(const NetworkChoice& choice) {
  return {choice.variables.begin(), choice.variables.end()};
}

const NetworkInterface kCard = {.name = "eth0", .addresses = {"10.77.0.1"}, .obstacle = ""};
const NetworkInterface kDocker = {
    .name = "docker0", .addresses = {"172.17.0.1"}, .obstacle = "a bridge"};

// A folder like /sys/class/net.
class Interfaces {
 public:
  void Add(const std::string& name, int type = 1) {
    std::filesystem::create_directories(folder_.File(name));
    WriteTestFile(folder_.File(name + "/type"), std::to_string(type) + "\n");
  }
  void AddFolder(const std::string& path) {
    std::filesystem::create_directories(folder_.File(path));
  }
  std::string Obstacle(const std::string& name) const { return ObstacleOf(name, folder_.File("")); }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("bridges without a network card, virtual cables and tunnels reach no other host") {
  Interfaces interfaces;
  for (const char* const name : {"eth0", "enp5s0f1np1", "bond0", "ib0", "docker0", "veth1a2b"}) {
    interfaces.Add(name);
  }
  interfaces.AddFolder("docker0/bridge");
  interfaces.AddFolder("docker0/brif/veth1a2b");
  interfaces.Add("br-5f3c");
  interfaces.AddFolder("br-5f3c/bridge");
  interfaces.Add("office", 65534);  // WireGuard under a name of the user's
  interfaces.Add("tun0", 65534);
  CHECK(interfaces.Obstacle("eth0") == "");
  CHECK(interfaces.Obstacle("enp5s0f1np1") == "");
  CHECK(interfaces.Obstacle("bond0") == "");
  CHECK(interfaces.Obstacle("ib0") == "");
  CHECK_THAT(interfaces.Obstacle("docker0"), Catch::Contains("bridge"));
  CHECK_THAT(interfaces.Obstacle("br-5f3c"), Catch::Contains("bridge"));
  CHECK_THAT(interfaces.Obstacle("veth1a2b"), Catch::Contains("containers"));
  CHECK(interfaces.Obstacle("office") == "a tunnel");
  CHECK(interfaces.Obstacle("tun0") == "a tunnel");
}

TEST_CASE("a bridge that holds the host's own network card is used") {
  Interfaces interfaces;
  interfaces.Add("br0");
  interfaces.AddFolder("br0/bridge");
  interfaces.AddFolder("br0/brif/eno1");
  CHECK_THAT(interfaces.Obstacle("br0"), Catch::Contains("bridge"));
  interfaces.AddFolder("eno1/device");
  CHECK(interfaces.Obstacle("br0") == "");
}

TEST_CASE("MPI and NCCL are told to leave out what reaches no other host") {
  const NetworkChoice choice = ChooseNetwork({kCard, kDocker}, Table({}));
  CHECK_FALSE(choice.is_users);
  CHECK(VariablesOf(choice) ==
        Variables{{"OMPI_MCA_btl_tcp_if_exclude", "127.0.0.1/8,sppp,docker0"},
                  {"NCCL_SOCKET_IFNAME", "^=lo,docker0"}});
  CHECK(ChooseNetwork({kCard}, Table({})).variables.empty());
}

TEST_CASE("the only network is used, whatever it is") {
  CHECK(ChooseNetwork({kDocker}, Table({})).variables.empty());
  CHECK(ChooseNetwork({}, Table({})).variables.empty());
}

TEST_CASE("what the user chose for one library stays, and the other one is still told") {
  const NetworkChoice by_variable =
      ChooseNetwork({kCard, kDocker}, Table({{"OMPI_MCA_btl_tcp_if_include", "docker0"}}));
  CHECK(by_variable.is_users);
  CHECK(VariablesOf(by_variable) == Variables{{"NCCL_SOCKET_IFNAME", "^=lo,docker0"}});
  CHECK(VariablesOf(ChooseNetwork({kCard, kDocker}, Table({{"NCCL_SOCKET_IFNAME", "eth0"}}))) ==
        Variables{{"OMPI_MCA_btl_tcp_if_exclude", "127.0.0.1/8,sppp,docker0"}});
}

TEST_CASE("a choice in the user's configuration file of Open MPI stays") {
  const TemporaryFolder home;
  std::filesystem::create_directories(home.File(".openmpi"));
  const GetEnv get_env = Table({{"HOME", home.File("")}});
  WriteTestFile(home.File(".openmpi/mca-params.conf"),
                "# btl_tcp_if_include = eth1\nbtl = ^openib\n");
  CHECK_FALSE(ChooseNetwork({kCard, kDocker}, get_env).is_users);
  WriteTestFile(home.File(".openmpi/mca-params.conf"), "  btl_tcp_if_include = docker0\n");
  CHECK(ChooseNetwork({kCard, kDocker}, get_env).is_users);
}

TEST_CASE("Open MPI 5 is told to use shared memory on a single host, unless the user chose") {
  CHECK(VariablesOf(ChooseSharedMemory("Open MPI v5.0.7", Table({}))) ==
        Variables{{"OMPI_MCA_btl", "self,sm"}});
  CHECK(VariablesOf(ChooseSharedMemory("Open MPI v6.0.0rc2", Table({}))) ==
        Variables{{"OMPI_MCA_btl", "self,sm"}});
  CHECK(ChooseSharedMemory("Open MPI v5.0.7", Table({{"OMPI_MCA_btl", "^sm"}})).variables.empty());
  CHECK(ChooseSharedMemory("Open MPI v4.1.4", Table({})).variables.empty());
  CHECK(ChooseSharedMemory("MPICH Version: 4.0.2", Table({})).variables.empty());
}

TEST_CASE("a message names interfaces, addresses and what was left out") {
  CHECK(internal::DescribeInterfaces({kCard, kDocker}) ==
        "eth0 10.77.0.1; docker0 172.17.0.1 (used only if named: a bridge)");
  CHECK(internal::DescribeInterfaces({}) == "none but loopback");
}

}  // namespace
}  // namespace dtrain
