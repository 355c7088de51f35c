// mpi_library_test.cc - which MPI library a process opens, and what it says where none fits.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/mpi_library.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "testing/catch.h"

namespace dtrain::internal {
namespace {

using Names = std::vector<std::string>;

GetEnv Table(std::map<std::string, std::string> table) {
  return [table = std::move(table)](const char* name) -> const char* {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
  };
}

std::string ErrorOf(const Names& names) {
  const auto mpi = LoadMpiLibrary(names);
  REQUIRE(!mpi.ok());
  CHECK(mpi.status().code() == ExitCode::kUsage);
  return std::string(mpi.status().message());
}

TEST_CASE("under Open MPI's launcher only Open MPI is taken, the one beside it first") {
  CHECK(MpiLibraryNames(Table({{"OMPI_COMM_WORLD_SIZE", "2"}}), "/opt/ompi/bin/mpirun") ==
        Names{"/opt/ompi/lib/libmpi.so.40", "libmpi.so.40"});
  CHECK(MpiLibraryNames(Table({{"OMPI_COMM_WORLD_SIZE", "2"}}), "") == Names{"libmpi.so.40"});
}

TEST_CASE("under MPICH's launcher only MPICH is taken, by each of its names") {
  const GetEnv hydra = Table({{"PMI_RANK", "0"}, {"MPI_LOCALNRANKS", "2"}});
  CHECK(MpiLibraryNames(hydra, "/v/bin/hydra_pmi_proxy") ==
        Names{"/v/lib/libmpich.so.12", "/v/lib/libmpi.so.12", "libmpich.so.12", "libmpi.so.12"});
}

TEST_CASE("under srun, which starts ranks of both, Open MPI comes first") {
  for (const char* const variable : {"PMIX_RANK", "PMI_RANK"}) {
    CHECK(MpiLibraryNames(Table({{variable, "0"}}), "/usr/sbin/slurmstepd") ==
          Names{"libmpi.so.40", "libmpich.so.12", "libmpi.so.12"});
  }
}

TEST_CASE("the library that the user chose is the only one") {
  CHECK(MpiLibraryNames(Table({{"OMPI_COMM_WORLD_SIZE", "2"}, {"DTRAIN_MPI_LIBRARY", "/m.so"}}),
                        "/usr/bin/orterun") == Names{"/m.so"});
}

TEST_CASE("a missing library is named with what to do") {
  const std::string error = ErrorOf({"/none/libmpi.so.40", "libnone.so.12"});
  CHECK_THAT(error, Catch::Contains("/none/libmpi.so.40") && Catch::Contains("libnone.so.12") &&
                        Catch::Contains("LD_LIBRARY_PATH") &&
                        Catch::Contains("DTRAIN_MPI_LIBRARY"));
}

TEST_CASE("a library that is not MPI's is refused") {
  CHECK_THAT(ErrorOf({"libz.so.1"}),
             Catch::Contains("libz.so.1 is no MPI library") && Catch::Contains("MPI_Get_library"));
}

// What a process that opens this library says of it; "" where the machine does not have it. A
// process of its own, because two MPI libraries would meet in one.
std::string Described(const std::string& name) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto mpi = LoadMpiLibrary({name});
    std::string text;
    if (mpi.ok()) {
      text = (*mpi)->Version();
      if ((*mpi)->Phase() != MpiLibrary::Life::kNotStarted) text += " is started";
    }
    const bool written = write(ends[1], text.data(), text.size()) >= 0;
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string text(1000, ' ');
  text.resize(static_cast<size_t>(std::max<ssize_t>(read(ends[0], text.data(), text.size()), 0)));
  close(ends[0]);
  int state = 0;
  waitpid(child, &state, 0);
  CHECK(state == 0);
  return text;
}

TEST_CASE("libraries of both families say their version before MPI starts") {
  const std::string open_mpi = Described("libmpi.so.40");
  const std::string mpich = Described("libmpich.so.12");
  CHECK(open_mpi + mpich != "");
  if (open_mpi != "") CHECK_THAT(open_mpi, Catch::Matches("Open MPI v[0-9.rc]+"));
  if (mpich != "") CHECK_THAT(mpich, Catch::Matches("MPICH Version: [0-9.abrcp]+"));
}

}  // namespace
}  // namespace dtrain::internal
