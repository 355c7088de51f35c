// replica_check.cc - checksums of all ranks beside each other, and the words for a difference.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/replica_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/comm/gather.h"
#include "dtrain/device/buffer.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/internal/fingerprint.h"
#include "dtrain/nn/frozen_parameters.h"
#include "dtrain/ops/checksum.h"

namespace dtrain {
namespace {

// The first rank of those that agree with most others.
template <typename T>
size_t RankOfMost(const std::vector<T>& values) {
  size_t best = 0;
  int64_t most = 0;
  for (size_t r = 0; r < values.size(); ++r) {
    const int64_t agreeing = std::count(values.begin(), values.end(), values[r]);
    if (agreeing > most) {
      most = agreeing;
      best = r;
    }
  }
  return best;
}

// "" where all are equal, else "rank 2 (host b), rank 3 (host b) differ from rank 0".
template <typename T>
std::string Differences(const std::vector<T>& values, const Communicator& comm) {
  const size_t right = RankOfMost(values);
  std::string ranks;
  for (size_t r = 0; r < values.size(); ++r) {
    if (values[r] == values[right]) continue;
    absl::StrAppend(&ranks, ranks.empty() ? "" : ", ",
                    comm.topology().RankName(static_cast<int>(r)));
  }
  return ranks.empty() ? ""
                       : absl::StrCat(ranks, " no longer holds the values of rank ",
                                      comm.topology().job_rank(static_cast<int>(right)));
}

Status ReplicaError(std::string_view when, const std::string& what) {
  return InternalError(absl::StrCat(
      "the replicas differ ", ToAbsl(when), ": ", what,
      "; the steps since the last checkpoint are lost. A host with faulty memory or other software "
      "is the likely cause"));
}

int64_t ChecksumOf(const Tensor& tensor, Stream& stream) {
  const Buffer memory(stream.device(), sizeof(int64_t));
  Tensor sum(memory.data(), {1}, DType::kInt64, stream.device());
  Checksum(tensor, sum, stream);
  return Download<int64_t>(sum, stream)[0];
}

}  // namespace

Status CheckReplicas(std::span<const Tensor> tensors, std::string_view when, Communicator& comm) {
  internal::Fingerprint mine;
  for (const Tensor& tensor : tensors) {
    Stream stream(tensor.device());
    SynchronizeDevice(tensor.device());
    const Tensor host = ToHost(tensor, stream);
    DT_CHECK(host.is_contiguous());
    mine.Add(host.raw(), host.bytes());
  }
  const std::string different = Differences(AllGather(comm, mine), comm);
  return different.empty() ? OkStatus() : ReplicaError(when, different);
}

Status CheckReplicas(ParameterSet& parameters, std::string_view when, Communicator& comm,
                     Stream& stream) {
  const auto sum = [&](const Tensor& weights) -> uint64_t {
    return weights ? static_cast<uint64_t>(ChecksumOf(weights, stream)) : 0;
  };
  const auto mine =
      static_cast<int64_t>(sum(parameters.weights()) + 31 * sum(FrozenOf(parameters).weights()));
  std::string different = Differences(AllGather(comm, mine), comm);
  if (different.empty()) return OkStatus();
  for (Parameter* const parameter : parameters.all()) {
    const int64_t of_parameter = ChecksumOf(parameter->master(), stream);
    const std::string here = Differences(AllGather(comm, of_parameter), comm);
    if (here.empty()) continue;
    absl::StrAppend(&different, ", first seen in ", parameter->name());
    break;
  }
  return ReplicaError(when, different);
}

}  // namespace dtrain
