// job_hosts_test.cc - the hosts of a job, from variables and the launcher's command.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/job_hosts.h"

#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using internal::ExpandHostList;
using internal::JobHosts;

using Names = std::vector<std::string>;

const GetEnv kNothing = [](const char* /*name*/) -> const char* { return nullptr; };

TEST_CASE("lists of hosts are expanded as Open MPI and Slurm shorten them") {
  CHECK(ExpandHostList("a,b@0(2)") == Names{"a", "b"});
  CHECK(ExpandHostList("node[2:1-3]@0(3)") == Names{"node01", "node02", "node03"});
  CHECK(ExpandHostList("node[1-2,7],login") == Names{"node1", "node2", "node7", "login"});
  CHECK(ExpandHostList("gpu[08-10].cluster") ==
        Names{"gpu08.cluster", "gpu09.cluster", "gpu10.cluster"});
}

TEST_CASE("a list of hosts that is none gives no names") {
  CHECK(ExpandHostList("node[1-").empty());
  CHECK(ExpandHostList("node[x-y]").empty());
  CHECK(ExpandHostList("node[1-2000000000]").empty());
  CHECK(ExpandHostList("").empty());
}

TEST_CASE("the hosts come from the daemon's variable, else from the command of mpirun") {
  const GetEnv daemon = [](const char* name) -> const char* {
    return std::string(name) == "OMPI_MCA_orte_node_regex" ? "a,b@0(2)" : nullptr;
  };
  CHECK(JobHosts(daemon, {}) == Names{"a", "b"});
  CHECK(JobHosts(kNothing, {"mpirun", "-n", "4", "-H", "a:2,b:2,a:1", "nmt_train"}) ==
        Names{"a", "b"});
  const TemporaryFolder folder;
  WriteTestFile(folder.File("hosts"), "# two\n10.0.0.1 slots=2\n\nb:2\n");
  CHECK(JobHosts(kNothing, {"mpirun", "--hostfile", folder.File("hosts"), "nmt_train"}) ==
        Names{"10.0.0.1", "b"});
  CHECK(JobHosts(kNothing, {"mpirun", "-n", "4", "nmt_train"}).empty());
}

}  // namespace
}  // namespace dtrain
