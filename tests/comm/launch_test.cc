// launch_test.cc - what is read from the environment of mpirun, srun and a lone process.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/launch.h"

#include <map>

#include "dtrain/comm/environment.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

GetEnv Table(const std::map<std::string, std::string>& table) {
  return [table](const char* name) -> const char* {
    const auto it = table.find(name);
    return it == table.end() ? nullptr : it->second.c_str();
  };
}

TEST_CASE("a process on its own is not parallel, inside a batch allocation either") {
  CHECK(!DetectLaunch(Table({}))->parallel);
  CHECK(!DetectLaunch(Table({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}))->parallel);
}

TEST_CASE("mpirun announces ranks, local ranks and its binding") {
  const auto launch = DetectLaunch(Table({{"OMPI_COMM_WORLD_SIZE", "4"},
                                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                          {"PMIX_RANK", "0"},
                                          {"OMP_NUM_THREADS", "3,1"},
                                          {"OMPI_MCA_orte_bound_at_launch", "1"}}));
  CHECK(launch->launcher == "mpirun");
  CHECK(launch->size == 4);
  CHECK(launch->local_size == 2);
  CHECK(launch->local_rank == 1);
  CHECK(launch->bound_by_mpirun);
  CHECK(launch->threads == 3);
}

TEST_CASE("a binding asked for is not undone") {
  CHECK(!DetectLaunch(Table({{"OMPI_COMM_WORLD_SIZE", "4"},
                             {"OMPI_MCA_orte_bound_at_launch", "1"},
                             {"OMPI_MCA_hwloc_base_binding_policy", "core"}}))
             ->bound_by_mpirun);
}

TEST_CASE("Open MPI 5's command and environment tell whether a binding was asked for") {
  const auto bound_by_default = [](const std::vector<std::string>& parent) {
    return DetectLaunch(Table({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PRTE_LAUNCHED", "1"}}), parent)
        ->bound_by_mpirun;
  };
  CHECK(bound_by_default({"prterun", "-n", "4", "nmt_train", "HOME=/root"}));
  CHECK(!bound_by_default({"prterun", "--bind-to", "core", "-n", "4", "nmt_train"}));
  CHECK(!bound_by_default({"prterun", "--map-by", "ppr:2:node:pe=4", "nmt_train"}));
  CHECK(!bound_by_default({"prted", "--prtemca", "hwloc_default_binding_policy", "core"}));
  CHECK(!bound_by_default({"prterun", "nmt_train", "PRTE_MCA_hwloc_default_binding_policy=none"}));
}

TEST_CASE("MPICH's launcher announces ranks and local ranks") {
  const auto launch = DetectLaunch(Table(
      {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}}));
  CHECK(launch->launcher == "mpirun");
  CHECK(launch->size == 4);
  CHECK(launch->local_size == 2);
  CHECK(launch->local_rank == 1);
  CHECK(!launch->bound_by_mpirun);
}

TEST_CASE("srun with PMIx is parallel, without it the line to use is told") {
  std::map<std::string, std::string> table = {
      {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "1"}};
  const Status alone = DetectLaunch(Table(table)).status();
  CHECK(alone.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(alone.message()), Catch::Contains("use srun --mpi=pmix"));
  table.emplace("PMIX_RANK", "1");
  const auto launch = DetectLaunch(Table(table));
  CHECK(launch->launcher == "srun");
  CHECK(launch->size == 4);
  const Status singletons = CheckWorldSize(*launch, 1);
  CHECK(singletons.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(singletons.message()),
             Catch::Contains("srun started 4 ranks, but MPI found 1: use srun --mpi=pmix"));
}

TEST_CASE("srun with PMI-2 alone is a warning of the first task, which tells the line to use") {
  const auto warning = [](const char* rank, const char* rank_variable) {
    const auto launch = DetectLaunch(Table({{"SLURM_STEP_ID", "0"},
                                            {"SLURM_STEP_NUM_TASKS", "4"},
                                            {"SLURM_PROCID", rank},
                                            {rank_variable, rank}}));
    CHECK(launch->launcher == "srun");
    CHECK(launch->size == 4);
    return launch->warning;
  };
  CHECK_THAT(warning("0", "PMI_RANK"), Catch::Contains("use srun --mpi=pmix"));
  CHECK(warning("1", "PMI_RANK").empty());
  CHECK(warning("0", "PMIX_RANK").empty());
}

TEST_CASE("another MPI's launcher is recognised by its world size") {
  const auto launch = DetectLaunch(Table({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}));
  CHECK(CheckWorldSize(*launch, 2).ok());
  const Status wrong = CheckWorldSize(*launch, 1);
  CHECK(wrong.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(wrong.message()), Catch::Contains("another MPI library"));
}

TEST_CASE("numbers in the environment that are none are refused") {
  for (const char* const text : {"0", "-1", "many", "2x"}) {
    const Status status = DetectLaunch(Table({{"OMP_NUM_THREADS", text}})).status();
    CHECK(status.code() == ExitCode::kUsage);
    CHECK_THAT(std::string(status.message()),
               Catch::Contains("OMP_NUM_THREADS=" + std::string(text)));
  }
  for (const char* const text : {"0", "-1", "soon", "nan", ""}) {
    const Status status = CommunicatorOptionsFrom(Table({{"DTRAIN_COMM_TIMEOUT", text}})).status();
    CHECK(status.code() == ExitCode::kUsage);
    CHECK_THAT(std::string(status.message()), Catch::Contains("number of seconds above 0"));
  }
  CHECK(CommunicatorOptionsFrom(Table({{"DTRAIN_COMM_TIMEOUT", "2.5"}}))->timeout_seconds == 2.5);
  CHECK(CommunicatorOptionsFrom(Table({}))->timeout_seconds == 120);
}

TEST_CASE("no limit is a long one, and a record needs a folder") {
  for (const char* const text : {"inf", "1e300", "1e10"}) {
    CHECK(CommunicatorOptionsFrom(Table({{"DTRAIN_COMM_TIMEOUT", text}}))->timeout_seconds == 1e8);
  }
  CHECK(CommunicatorOptionsFrom(Table({{"DTRAIN_COMM_RECORD", "/tmp"}}))->record_directory ==
        "/tmp");
  const Status none = CommunicatorOptionsFrom(Table({{"DTRAIN_COMM_RECORD", "/no/such"}})).status();
  CHECK(none.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(none.message()),
             Catch::Contains("DTRAIN_COMM_RECORD=/no/such is no folder"));
}

TEST_CASE("the allreduce's algorithm is read from the environment") {
  const auto of = [](const char* text) {
    return CommunicatorOptionsFrom(Table({{"DTRAIN_ALLREDUCE", text}}));
  };
  CHECK(CommunicatorOptionsFrom(Table({}))->algorithm == AllReduceAlgorithm::kAuto);
  CHECK(of("flat")->algorithm == AllReduceAlgorithm::kFlat);
  CHECK(of("hierarchical")->algorithm == AllReduceAlgorithm::kHierarchical);
  CHECK(of("measure")->algorithm == AllReduceAlgorithm::kMeasure);
  CHECK(of("ring").status().code() == ExitCode::kUsage);
  CHECK_THAT(std::string(of("ring").status().message()),
             Catch::Contains("DTRAIN_ALLREDUCE=ring is no algorithm"));
}

TEST_CASE("NCCL may be switched off in the environment") {
  const auto of = [](const char* text) {
    return CommunicatorOptionsFrom(Table({{"DTRAIN_NCCL", text}}));
  };
  CHECK(CommunicatorOptionsFrom(Table({}))->nccl);
  CHECK(of("auto")->nccl);
  CHECK(!of("off")->nccl);
  CHECK(of("no").status().code() == ExitCode::kUsage);
  CHECK_THAT(std::string(of("no").status().message()),
             Catch::Contains("DTRAIN_NCCL=no is neither auto nor off"));
}

TEST_CASE("the port of heartbeats may be set in the environment") {
  const auto of = [](const char* text) { return PortFrom(Table({{"DTRAIN_PORT", text}})); };
  CHECK(*PortFrom(Table({})) == 0);
  CHECK(*of("52000") == 52000);
  for (const char* const text : {"", "80", "65535", "many"}) {
    CHECK(of(text).status().code() == ExitCode::kUsage);
  }
  CHECK_THAT(std::string(of("80").status().message()),
             Catch::Contains("DTRAIN_PORT=80 is not a port"));
}

TEST_CASE("a lone process is a world of one rank without MPI") {
  const auto environment = Environment::Create();
  REQUIRE(environment.ok());
  CHECK((*environment)->World().size() == 1);
  CHECK((*environment)->mpi_version() == "none");
  CHECK((*environment)->threads() >= 1);
}

}  // namespace
}  // namespace dtrain
