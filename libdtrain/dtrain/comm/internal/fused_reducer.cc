// fused_reducer.cc - copies in, scales, reduces and copies out.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/fused_reducer.h"

#include <string>

#include "absl/strings/str_format.h"
#include "dtrain/comm/internal/host_copy.h"
#include "dtrain/comm/internal/scale_values.h"
#include "dtrain/device/copy.h"

namespace dtrain::internal {

void FusedReducer::Run(const FusedReduction& fused, std::byte* buffer) {
  std::string name(Name(CollectiveKind::kAllReduce));
  if (fused.parts.size() > 1 && timeline_->is_on()) {
    absl::StrAppendFormat(&name, " of %d", fused.parts.size());
  }
  const Timeline::Span span(*timeline_, name, kCommunicationLane, /*index=*/-1, fused.bytes);
  if (fused.parts.front().by_nccl) {
    ReduceByNccl(fused, buffer);
  } else {
    ReduceOnHost(fused, buffer);
  }
  tensors_ += static_cast<int64_t>(fused.parts.size());
  ++reductions_;
}

void FusedReducer::ReduceOnHost(const FusedReduction& fused, std::byte* buffer) {
  const ReductionPart& first = fused.parts.front();
  auto* const data = fused.IsInPlace() ? static_cast<std::byte*>(first.to) : buffer;
  std::byte* at = data;
  for (const ReductionPart& part : fused.parts) {
    const auto bytes = static_cast<size_t>(part.bytes());
    if (part.to == nullptr) {
      FillWithIdentity(at, part.count, part.dtype, part.request->op);
    } else {
      HostCopy(part.from, at, bytes);
      Scale(at, part.count, part.dtype, part.request->prescale);
    }
    at += bytes;
  }
  const auto count = fused.bytes / static_cast<int64_t>(SizeOf(first.dtype));
  comm_->AllReduce(data, count, first.dtype, first.request->op);
  at = data;
  for (const ReductionPart& part : fused.parts) {
    const auto bytes = static_cast<size_t>(part.bytes());
    if (part.to != nullptr) {
      HostCopy(at, part.to, bytes);
      Scale(part.to, part.count, part.dtype, part.request->postscale);
    }
    at += bytes;
  }
}

void FusedReducer::ReduceByNccl(const FusedReduction& fused, std::byte* buffer) {
  DeviceCommunicator& nccl = gpu_->nccl();
  Stream& stream = nccl.stream();
  const ReductionPart& first = fused.parts.front();
  std::byte* const data = fused.IsInPlace() ? static_cast<std::byte*>(first.to)
                                            : gpu_->BufferOf(static_cast<size_t>(fused.bytes));
  std::byte* at = data;
  for (const ReductionPart& part : fused.parts) {
    const auto bytes = static_cast<size_t>(part.bytes());
    if (part.to == nullptr) {
      FillWithIdentity(buffer, part.count, part.dtype, part.request->op);
      CopyToDevice(at, buffer, bytes, stream);
    } else {
      if (part.ready != nullptr) RunBehind(stream, *part.ready);
      if (part.from != at) CopyOnDevice(at, part.from, bytes, stream);
    }
    at += bytes;
  }
  nccl.AllReduce(data, fused.bytes / static_cast<int64_t>(SizeOf(first.dtype)), first.dtype,
                 first.request->op);
  at = data;
  for (const ReductionPart& part : fused.parts) {
    const auto bytes = static_cast<size_t>(part.bytes());
    if (part.to != nullptr && part.to != at) CopyOnDevice(part.to, at, bytes, stream);
    at += bytes;
  }
  nccl.Wait();
  stream.Synchronize();  // the copies after the sum are short
}

}  // namespace dtrain::internal
