// nccl_library.cc - finds NCCL on this machine and its functions in it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/nccl_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "dtrain/device/cuda/shared_library.h"

namespace dtrain::internal {
namespace {

constexpr const char* kName = "libnccl.so.2";

// The first name that is not there is kept in `missing`.
template <typename Function>
void Load(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr && missing.empty()) missing = name;
}

StatusOr<NcclLibrary> LoadAll() {
  std::string error;
  void* const library = cuda::FindSharedLibrary(kName, error);
  if (library == nullptr) {
    return CommunicationError(absl::StrCat("NCCL cannot be loaded (", error,
                                           "); install libnccl2 or put its folder into "
                                           "LD_LIBRARY_PATH"));
  }
  NcclLibrary nccl{};
  std::string missing;
  Load(library, "ncclGetVersion", nccl.GetVersion, missing);
  Load(library, "ncclGetUniqueId", nccl.GetUniqueId, missing);
  Load(library, "ncclGetErrorString", nccl.GetErrorString, missing);
  Load(library, "ncclGetLastError", nccl.GetLastError, missing);
  Load(library, "ncclCommInitRankConfig", nccl.CommInitRankConfig, missing);
  Load(library, "ncclCommGetAsyncError", nccl.CommGetAsyncError, missing);
  Load(library, "ncclCommFinalize", nccl.CommFinalize, missing);
  Load(library, "ncclCommDestroy", nccl.CommDestroy, missing);
  Load(library, "ncclCommAbort", nccl.CommAbort, missing);
  Load(library, "ncclGroupStart", nccl.GroupStart, missing);
  Load(library, "ncclGroupEnd", nccl.GroupEnd, missing);
  Load(library, "ncclAllReduce", nccl.AllReduce, missing);
  Load(library, "ncclReduceScatter", nccl.ReduceScatter, missing);
  Load(library, "ncclAllGather", nccl.AllGather, missing);
  Load(library, "ncclBroadcast", nccl.Broadcast, missing);
  Load(library, "ncclSend", nccl.Send, missing);
  Load(library, "ncclRecv", nccl.Receive, missing);
  int version = 0;
  const bool has_version =
      nccl.GetVersion != nullptr && nccl.GetVersion(&version) == NcclResult::kSuccess;
  if (has_version && (version < NcclLibrary::kOldestVersion || !missing.empty())) {
    return CommunicationError(
        absl::StrCat("NCCL ", NcclVersionName(version), " is too old; install 2.18 or later"));
  }
  if (!missing.empty()) return CommunicationError(absl::StrCat(kName, " has no ", missing));
  return nccl;
}

}  // namespace

StatusOr<const NcclLibrary*> NcclLibrary::Get() {
  static const StatusOr<NcclLibrary> nccl = LoadAll();
  if (!nccl.ok()) return nccl.status();
  return &*nccl;
}

}  // namespace dtrain::internal
