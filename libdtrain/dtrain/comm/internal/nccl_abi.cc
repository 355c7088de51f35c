// nccl_abi.cc - nccl_library.h against the nccl.h of this machine, while compiling.
// SPDX-License-Identifier: Apache-2.0
#include <nccl.h>

#include "dtrain/comm/internal/abi_check.h"
#include "dtrain/comm/internal/nccl_library.h"

namespace dtrain::internal {
namespace {

constexpr bool Is(NcclResult ours, ncclResult_t theirs) { return static_cast<int>(ours) == theirs; }
static_assert(Is(NcclResult::kSuccess, ncclSuccess));
static_assert(Is(NcclResult::kUnhandledCudaError, ncclUnhandledCudaError));
static_assert(Is(NcclResult::kSystemError, ncclSystemError));
static_assert(Is(NcclResult::kInternalError, ncclInternalError));
static_assert(Is(NcclResult::kInvalidArgument, ncclInvalidArgument));
static_assert(Is(NcclResult::kInvalidUsage, ncclInvalidUsage));
static_assert(Is(NcclResult::kRemoteError, ncclRemoteError));
static_assert(Is(NcclResult::kInProgress, ncclInProgress));

constexpr bool Is(NcclType ours, ncclDataType_t theirs) { return static_cast<int>(ours) == theirs; }
static_assert(Is(NcclType::kUint8, ncclUint8));
static_assert(Is(NcclType::kInt32, ncclInt32));
static_assert(Is(NcclType::kInt64, ncclInt64));
static_assert(Is(NcclType::kFloat16, ncclFloat16));
static_assert(Is(NcclType::kFloat32, ncclFloat32));
static_assert(Is(NcclType::kFloat64, ncclFloat64));
// In 2.18 only of compilers with the type, but always the same number.
static_assert(Is(NcclType::kBFloat16, static_cast<ncclDataType_t>(9)));

constexpr bool Is(NcclOp ours, ncclRedOp_t theirs) { return static_cast<int>(ours) == theirs; }
static_assert(Is(NcclOp::kSum, ncclSum));
static_assert(Is(NcclOp::kProduct, ncclProd));
static_assert(Is(NcclOp::kMax, ncclMax));
static_assert(Is(NcclOp::kMin, ncclMin));
static_assert(Is(NcclOp::kAverage, ncclAvg));

static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(NcclConfig, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(NcclConfig::kDefault == NCCL_CONFIG_UNDEF_INT);

constexpr NcclLibrary kNccl{};
static_assert(TakesTheSame(kNccl.GetVersion, decltype(&ncclGetVersion){}));
static_assert(TakesTheSame(kNccl.GetUniqueId, decltype(&ncclGetUniqueId){}));
static_assert(TakesTheSame(kNccl.CommInitRankConfig, decltype(&ncclCommInitRankConfig){}));
static_assert(TakesTheSame(kNccl.CommGetAsyncError, decltype(&ncclCommGetAsyncError){}));
static_assert(TakesTheSame(kNccl.CommFinalize, decltype(&ncclCommFinalize){}));
static_assert(TakesTheSame(kNccl.CommDestroy, decltype(&ncclCommDestroy){}));
static_assert(TakesTheSame(kNccl.CommAbort, decltype(&ncclCommAbort){}));
static_assert(TakesTheSame(kNccl.AllReduce, decltype(&ncclAllReduce){}));
static_assert(TakesTheSame(kNccl.ReduceScatter, decltype(&ncclReduceScatter){}));
static_assert(TakesTheSame(kNccl.AllGather, decltype(&ncclAllGather){}));
static_assert(TakesTheSame(kNccl.Broadcast, decltype(&ncclBroadcast){}));
static_assert(TakesTheSame(kNccl.Send, decltype(&ncclSend){}));
static_assert(TakesTheSame(kNccl.Receive, decltype(&ncclRecv){}));

}  // namespace
}  // namespace dtrain::internal
