// collective_memory.cc - decides whether a batch needs more memory, and takes it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/collective_memory.h"

#include <algorithm>
#include <new>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/status.h"
#include "dtrain/comm/internal/row_partition.h"

namespace dtrain::internal {
namespace {

Shape WithRows(const Shape& shape, int64_t rows) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[0] = rows;
  return Shape(dims);
}

}  // namespace

bool CollectiveMemory::MayNeedMore(const std::vector<CollectiveWork>& batch,
                                   const std::vector<FusedReduction>& fused, bool some_joined) {
  bool needs = false;
  for (const CollectiveWork& work : batch) {
    const CollectiveRequest& request = work.agreed.request;
    const bool makes = request.kind == CollectiveKind::kAllGather ||
                       request.kind == CollectiveKind::kReduceScatter ||
                       request.kind == CollectiveKind::kAllToAll;
    needs = needs || makes || (UsesGpu(request) && !gpu_->TakesNccl(request));
  }
  for (const FusedReduction& f : fused) {
    // A single tensor is reduced in place, except on a rank that has joined.
    needs = needs || some_joined;
    int64_t& known = fused_bytes_[f.parts.front().by_nccl ? 1 : 0];
    if (f.parts.size() == 1 || f.bytes <= known) continue;
    known = f.bytes;
    needs = true;
  }
  return needs;
}

std::string CollectiveMemory::Take(std::vector<CollectiveWork>& batch,
                                   const std::vector<FusedReduction>& fused) {
  const CollectiveRequest* request = nullptr;
  int64_t bytes = 0;
  try {
    for (const FusedReduction& f : fused) {
      const ReductionPart& first = f.parts.front();
      request = first.request;
      bytes = f.bytes;
      const bool in_place = f.IsInPlace();
      // A rank that has joined fills the host's buffer with identity elements.
      const bool lacks = std::ranges::any_of(f.parts, [](const auto& part) { return !part.to; });
      if (!in_place && first.by_nccl) gpu_->BufferOf(static_cast<size_t>(bytes));
      if (!in_place && (!first.by_nccl || lacks)) Grow(static_cast<size_t>(bytes));
    }
    for (CollectiveWork& work : batch) {
      if (!work.submitted || work.submitted->inputs.empty()) continue;  // a barrier has no tensor
      request = &work.agreed.request;
      bytes = static_cast<int64_t>(work.submitted->inputs[0].bytes());
      FetchFromGpu(work);
      MakeOutput(work);
    }
  } catch (const std::bad_alloc& error) {
    return absl::StrFormat("%s has no memory for %s \"%s\" (%d bytes): %s",
                           comm_->topology().RankName(comm_->rank()), ToAbsl(Name(request->kind)),
                           request->name, bytes, error.what());
  }
  return "";
}

void CollectiveMemory::FetchFromGpu(CollectiveWork& work) {
  const CollectiveRequest& request = work.agreed.request;
  if (!UsesGpu(request) || gpu_->TakesNccl(request)) return;
  SubmittedCollective& submitted = *work.submitted;
  work.gpu_outputs = gpu_->Fetch(submitted.inputs, submitted.outputs, submitted.ready.get());
}

void CollectiveMemory::MakeOutput(CollectiveWork& work) {
  const Tensor& input = work.submitted->inputs[0];
  const auto me = static_cast<size_t>(comm_->rank());
  const CollectiveRequest& request = work.agreed.request;
  const bool by_nccl = UsesGpu(request) && gpu_->TakesNccl(request);
  int64_t rows = 0;
  switch (request.kind) {
    case CollectiveKind::kAllGather:
      for (const auto& of_rank : work.agreed.rows) rows += of_rank[0];
      break;
    case CollectiveKind::kReduceScatter:
      rows = RowsOf(input.dim(0), comm_->size())[me];
      if (by_nccl) {
        gpu_->BufferOf(static_cast<size_t>(BytesOfSlots(input, comm_->size())));
      } else {
        Grow(input.bytes());
      }
      break;
    case CollectiveKind::kAllToAll:
      for (const auto& splits : work.agreed.rows) rows += splits[me];
      break;
    default:
      return;
  }
  const Shape shape = WithRows(input.shape(), rows);
  if (by_nccl) {
    work.made = gpu_->NewForNccl(shape, input.dtype());
    return;
  }
  work.made = make_tensor_(shape, input.dtype());
  if (UsesGpu(request)) work.gpu_made = gpu_->NewOnGpu(work.made);
}

void CollectiveMemory::Grow(size_t bytes) {
  if (buffer_ && buffer_.bytes() >= bytes) return;
  buffer_ = {};
  buffer_ = make_tensor_(Shape({static_cast<int64_t>(bytes)}), DType::kUint8);
}

}  // namespace dtrain::internal
