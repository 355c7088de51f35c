// nccl_library.h - the functions of NCCL that the library calls, loaded on first use.
// SPDX-License-Identifier: Apache-2.0
//
// They are declared here instead of by nccl.h, so that NCCL is needed neither to build nor to
// start. Its interface has been stable since version 2.18. If nccl.h is installed, nccl_abi.cc
// compares the two.
#ifndef DTRAIN_COMM_INTERNAL_NCCL_LIBRARY_H_
#define DTRAIN_COMM_INTERNAL_NCCL_LIBRARY_H_

#include <cstddef>
#include <string>

#include "dtrain/base/status.h"

namespace dtrain::internal {

enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7
};

enum class NcclType : int {
  kUint8 = 1,
  kInt32 = 2,
  kInt64 = 4,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBFloat16 = 9
};

enum class NcclOp : int { kSum = 0, kProduct = 1, kMax = 2, kMin = 3, kAverage = 4 };

struct NcclUniqueId {
  char bytes[128] = {};
};

// The fields of version 2.18. Later versions read `size` and use defaults for the rest.
struct NcclConfig {
  static constexpr int kDefault = -2147483647 - 1;

  size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21800;
  int blocking = kDefault;
  int cga_cluster_size = kDefault;
  int min_ctas = kDefault;
  int max_ctas = kDefault;
  const char* net_name = nullptr;
  int split_share = kDefault;
};

using NcclHandle = void*;

struct NcclLibrary {
  // The oldest version that has all of these functions.
  static constexpr int kOldestVersion = 21800;

  NcclResult (*GetVersion)(int* version);
  NcclResult (*GetUniqueId)(NcclUniqueId* id);
  const char* (*GetErrorString)(NcclResult result);
  const char* (*GetLastError)(NcclHandle comm);
  NcclResult (*CommInitRankConfig)(NcclHandle* comm, int size, NcclUniqueId id, int rank,
                                   NcclConfig* config);
  NcclResult (*CommGetAsyncError)(NcclHandle comm, NcclResult* error);
  NcclResult (*CommFinalize)(NcclHandle comm);
  NcclResult (*CommDestroy)(NcclHandle comm);
  NcclResult (*CommAbort)(NcclHandle comm);
  NcclResult (*GroupStart)();
  NcclResult (*GroupEnd)();
  NcclResult (*AllReduce)(const void* from, void* to, size_t count, NcclType type, NcclOp op,
                          NcclHandle comm, void* stream);
  NcclResult (*ReduceScatter)(const void* from, void* to, size_t count, NcclType type, NcclOp op,
                              NcclHandle comm, void* stream);
  NcclResult (*AllGather)(const void* from, void* to, size_t count, NcclType type, NcclHandle comm,
                          void* stream);
  NcclResult (*Broadcast)(const void* from, void* to, size_t count, NcclType type, int root,
                          NcclHandle comm, void* stream);

  NcclResult (*Send)(const void* from, size_t count, NcclType type, int peer, NcclHandle comm,
                     void* stream);
  NcclResult (*Receive)(void* to, size_t count, NcclType type, int peer, NcclHandle comm,
                        void* stream);

  // Returns CommunicationError if NCCL is absent, too old or not part of this build. Test builds
  // emulate it in the host's memory (tests/testing/host_executor/nccl.cc).
  static StatusOr<const NcclLibrary*> Get();
};

// "2.28.9" for 22809.
std::string NcclVersionName(int version);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NCCL_LIBRARY_H_
