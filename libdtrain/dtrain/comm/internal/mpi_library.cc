// mpi_library.cc - finds the MPI library of the launcher that started this process, and opens it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/mpi_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dtrain/comm/internal/mpi_functions.h"

namespace dtrain::internal {
namespace {

// Open MPI 1.10 to 6; MPICH as Debian names it; MPICH, Intel MPI, MVAPICH and Cray MPICH.
constexpr const char* kOpenMpiName = "libmpi.so.40";
constexpr std::array kMpichNames = {"libmpich.so.12", "libmpi.so.12"};

// Only Open MPI has its communicators as variables.
constexpr const char* kOnlyInOpenMpi = "ompi_mpi_comm_world";

// The program of our parent: mpirun or its daemon, which lies beside its MPI library's folder.
std::string LauncherProgram() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink(absl::StrCat("/proc/", getppid(), "/exe"), error);
  return error ? "" : path.string();
}

template <typename Abi>
StatusOr<std::unique_ptr<MpiLibrary>> TakeAs(void* library, const std::string& name) {
  std::string missing;
  auto mpi = std::make_unique<LoadedMpi<Abi>>(library, &missing);
  if (!missing.empty()) {
    return UsageError(
        absl::StrCat(name, " is no MPI library of version 3 or later: it has no ", missing));
  }
  return std::unique_ptr<MpiLibrary>(std::move(mpi));
}

StatusOr<std::unique_ptr<MpiLibrary>> TakeLibrary(void* library, const std::string& name) {
  if (dlsym(library, kOnlyInOpenMpi) != nullptr) return TakeAs<OpenMpiAbi>(library, name);
  DT_ASSIGN_OR_RETURN(std::unique_ptr<MpiLibrary> mpi, TakeAs<MpichAbi>(library, name));
  const std::string version = mpi->Version();
  for (const std::string_view family : {"MPICH", "Intel(R) MPI", "MVAPICH"}) {
    if (version.find(family) != std::string::npos) return mpi;
  }
  return UsageError(
      absl::StrCat(name, " (", version,
                   ") is neither Open MPI nor MPICH nor a library with MPICH's binary "
                   "interface: start the job with one of these"));
}

MpiLibrary*& OpenLibrary() {
  static MpiLibrary* library = nullptr;  // never freed: MPI's exit handlers outlive main()
  return library;
}

}  // namespace

std::vector<std::string> MpiLibraryNames(const GetEnv& get_env, const std::string& launcher) {
  if (const char* const chosen = get_env("DTRAIN_MPI_LIBRARY"); chosen != nullptr && *chosen != 0) {
    return {chosen};
  }
  const bool is_open_mpi = get_env("OMPI_COMM_WORLD_SIZE") != nullptr;
  const bool is_hydra = get_env("PMI_RANK") != nullptr && get_env("MPI_LOCALNRANKS") != nullptr;
  std::vector<std::string> names;
  if (!is_hydra) names.emplace_back(kOpenMpiName);
  if (!is_open_mpi) names.insert(names.end(), kMpichNames.begin(), kMpichNames.end());
  if (launcher.empty() || !(is_open_mpi || is_hydra)) return names;
  const std::filesystem::path lib = std::filesystem::path(launcher).parent_path() / "../lib";
  std::vector<std::string> all;
  for (const std::string& name : names) all.push_back((lib / name).lexically_normal().string());
  all.insert(all.end(), names.begin(), names.end());
  return all;
}

StatusOr<std::unique_ptr<MpiLibrary>> LoadMpiLibrary(const std::vector<std::string>& names) {
  std::string errors;
  for (const std::string& name : names) {
    // Plugins of Open MPI find its functions among those of the whole program.
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library != nullptr) return TakeLibrary(library, name);
    const char* const error = dlerror();
    absl::StrAppend(&errors, errors.empty() ? "" : "; ", error == nullptr ? name : error);
  }
  return UsageError(absl::StrCat(
      "the MPI library of the launcher that started this program is not found (", errors,
      "): install it, put its folder into LD_LIBRARY_PATH, or set DTRAIN_MPI_LIBRARY to its file"));
}

StatusOr<MpiLibrary*> OpenMpiLibrary(const GetEnv& get_env) {
  if (OpenLibrary() != nullptr) return OpenLibrary();
  std::unique_ptr<MpiLibrary> mpi;
  // A program that calls MPI itself brings its library, and a tool that watches MPI's calls brings
  // functions in front of it.
  if (dlsym(RTLD_DEFAULT, "MPI_Init_thread") != nullptr) {
    DT_ASSIGN_OR_RETURN(mpi, TakeLibrary(dlopen(nullptr, RTLD_NOW), "this program"));
  } else {
    DT_ASSIGN_OR_RETURN(mpi, LoadMpiLibrary(MpiLibraryNames(get_env, LauncherProgram())));
  }
  OpenLibrary() = mpi.release();
  return OpenLibrary();
}

MpiLibrary* OpenedMpiLibrary() { return OpenLibrary(); }

}  // namespace dtrain::internal
