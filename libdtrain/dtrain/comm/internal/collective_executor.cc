// collective_executor.cc - the order of a batch, and the collectives that move data.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/collective_executor.h"

#include <algorithm>
#include <string>

#include "dtrain/comm/gather.h"
#include "dtrain/comm/internal/host_copy.h"
#include "dtrain/comm/internal/row_partition.h"
#include "dtrain/comm/internal/scale_values.h"
#include "dtrain/device/copy.h"

namespace dtrain::internal {

void CollectiveExecutor::Run(std::vector<CollectiveWork>& batch, bool some_joined) {
  MeetOnGpus(batch);
  std::vector<FusedReduction> fused = PlanReductions(batch);
  if (memory_.MayNeedMore(batch, fused, some_joined)) {
    const std::string lacks = memory_.Take(batch, fused);
    // The others must not wait in an exchange for a rank that cannot take part.
    if (comm_->AllReduceValue<int32_t>(lacks.empty() ? 0 : 1, ReduceOp::kMax) != 0) {
      const std::vector<std::string> texts = AllGatherStrings(*comm_, lacks);
      if (!lacks.empty()) throw CollectiveError(ExitCode::kOutOfMemory, lacks);
      const auto is_told = [](const std::string& text) { return !text.empty(); };
      throw CollectiveError(ExitCode::kCommunication,
                            *std::find_if(texts.begin(), texts.end(), is_told));
    }
    fused = PlanReductions(batch);  // tensors that pass through the host are elsewhere now
  }
  for (const FusedReduction& reduction : fused) reducer_.Run(reduction, memory_.buffer());
  for (const CollectiveWork& work : batch) {
    // Once a rank has joined, only all-reduces and barriers continue.
    if (work.submitted) Move(work);
  }
  ReturnToGpus(batch);
}

void CollectiveExecutor::MeetOnGpus(const std::vector<CollectiveWork>& batch) {
  bool uses_gpus = false;
  for (const CollectiveWork& work : batch) {
    if (!UsesGpu(work.agreed.request)) continue;
    uses_gpus = true;
    if (!work.submitted) continue;
    for (const Tensor& tensor : work.submitted->inputs) {
      if (tensor.device().type == DeviceType::kCuda) gpu_device_ = tensor.device();
    }
  }
  if (uses_gpus) gpu_.Meet(gpu_device_);
}

void CollectiveExecutor::ReturnToGpus(const std::vector<CollectiveWork>& batch) {
  for (const CollectiveWork& work : batch) {
    const CollectiveRequest& request = work.agreed.request;
    if (!work.submitted || !UsesGpu(request) || gpu_.TakesNccl(request)) continue;
    gpu_.Return(work.submitted->outputs, work.gpu_outputs);
    Tensor& result = work.submitted->result->output;
    if (!work.gpu_outputs.empty()) continue;
    gpu_.Return({result}, {work.gpu_made});
    result = work.gpu_made;
  }
}

std::vector<FusedReduction> CollectiveExecutor::PlanReductions(
    const std::vector<CollectiveWork>& batch) const {
  std::vector<ReductionPart> parts;
  for (const CollectiveWork& work : batch) {
    const CollectiveRequest& request = work.agreed.request;
    if (request.kind != CollectiveKind::kAllReduce) continue;
    const bool by_nccl = UsesGpu(request) && gpu_.TakesNccl(request);
    for (size_t i = 0; i < request.items.size(); ++i) {
      ReductionPart& part = parts.emplace_back();
      part.request = &request;
      part.dtype = request.items[i].dtype;
      part.count = request.items[i].shape.elements();
      part.by_nccl = by_nccl;
      if (!work.submitted) continue;
      part.from = work.submitted->inputs[i].raw();
      part.to = work.submitted->outputs[i].raw();
      part.ready = work.submitted->ready.get();
    }
  }
  return FuseReductions(parts, fusion_bytes_);
}

void CollectiveExecutor::Move(const CollectiveWork& work) {
  const CollectiveKind kind = work.agreed.request.kind;
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBarrier) return;
  const Timeline::Span span(*timeline_, Name(kind), kCommunicationLane, /*index=*/-1,
                            static_cast<int64_t>(work.submitted->inputs[0].bytes()));
  switch (kind) {
    case CollectiveKind::kAllGather:
      return AllGather(work);
    case CollectiveKind::kBroadcast:
      return Broadcast(work);
    case CollectiveKind::kReduceScatter:
      return ReduceScatter(work);
    case CollectiveKind::kAllToAll:
      return AllToAll(work);
    default:
      break;
  }
}

void CollectiveExecutor::AllGather(const CollectiveWork& work) {
  const Tensor& input = work.submitted->inputs[0];
  std::vector<int64_t> rows;
  for (const auto& of_rank : work.agreed.rows) rows.push_back(of_rank[0]);
  const std::vector<int64_t> offsets = Offsets(rows, BytesOfRow(input));
  if (TakesNccl(work)) {
    GatherByNccl(work, offsets);
  } else {
    const Tensor& output = work.made;
    const auto me = static_cast<size_t>(comm_->rank());
    HostCopy(input.raw(), static_cast<std::byte*>(output.raw()) + offsets[me], input.bytes());
    comm_->StartAllGatherV(output.raw(), offsets)->Wait();
  }
  HandOver(work, std::move(rows));
}

void CollectiveExecutor::GatherByNccl(const CollectiveWork& work,
                                      const std::vector<int64_t>& offsets) {
  DeviceCommunicator& nccl = gpu_.nccl();
  auto* const output = static_cast<std::byte*>(work.made.raw());
  const Tensor& input = work.submitted->inputs[0];
  CopyOnDevice(output + offsets[static_cast<size_t>(comm_->rank())], input.raw(), input.bytes(),
               NcclStreamOf(work));
  const auto size = static_cast<int64_t>(comm_->size());
  bool is_even = true;
  for (size_t r = 0; r < offsets.size(); ++r) {
    is_even = is_even && offsets[r] * size == offsets.back() * static_cast<int64_t>(r);
  }
  if (is_even) {
    nccl.AllGather(output, offsets.back() / size, DType::kUint8);
  } else {
    nccl.Group([&] {
      for (int r = 0; r < comm_->size(); ++r) {
        const auto at = static_cast<size_t>(r);
        nccl.Broadcast(output + offsets[at], offsets[at + 1] - offsets[at], r);
      }
    });
  }
  nccl.Wait();
}

void CollectiveExecutor::HandOver(const CollectiveWork& work, std::vector<int64_t> rows) {
  work.submitted->result->output = work.made;
  work.submitted->result->rows = std::move(rows);
}

Stream& CollectiveExecutor::NcclStreamOf(const CollectiveWork& work) {
  Stream& stream = gpu_.nccl().stream();
  if (work.submitted->ready) RunBehind(stream, *work.submitted->ready);
  return stream;
}

void CollectiveExecutor::Broadcast(const CollectiveWork& work) {
  const Tensor& output = work.submitted->outputs[0];
  const int root = work.agreed.request.root;
  if (output.device().type == DeviceType::kCuda) {
    Stream& stream = NcclStreamOf(work);
    const Tensor& input = work.submitted->inputs[0];
    if (comm_->rank() == root && input.raw() != output.raw()) {
      CopyOnDevice(output.raw(), input.raw(), output.bytes(), stream);
    }
    gpu_.nccl().Broadcast(output.raw(), static_cast<int64_t>(output.bytes()), root);
    return gpu_.nccl().Wait();
  }
  if (comm_->rank() == root)
    HostCopy(work.submitted->inputs[0].raw(), output.raw(), output.bytes());
  comm_->Broadcast(output.raw(), static_cast<int64_t>(output.bytes()), root);
}

void CollectiveExecutor::ReduceScatter(const CollectiveWork& work) {
  const CollectiveRequest& request = work.agreed.request;
  const Tensor& input = work.submitted->inputs[0];
  std::vector<int64_t> rows = RowsOf(input.dim(0), comm_->size());
  const int64_t row_bytes = BytesOfRow(input);
  if (TakesNccl(work)) {
    ScatterByNccl(work, Offsets(rows, row_bytes));
    return HandOver(work, std::move(rows));
  }
  const auto element_bytes = static_cast<int64_t>(SizeOf(input.dtype()));
  HostCopy(input.raw(), memory_.buffer(), input.bytes());
  Scale(memory_.buffer(), input.elements(), input.dtype(), request.prescale);
  comm_
      ->StartReduceScatter(memory_.buffer(), Offsets(rows, row_bytes / element_bytes),
                           input.dtype(), request.op)
      ->Wait();
  const auto me = static_cast<size_t>(comm_->rank());
  const Tensor& output = work.made;
  HostCopy(memory_.buffer() + Offsets(rows, row_bytes)[me], output.raw(), output.bytes());
  Scale(output.raw(), output.elements(), output.dtype(), request.postscale);
  HandOver(work, std::move(rows));
}

void CollectiveExecutor::ScatterByNccl(const CollectiveWork& work,
                                       const std::vector<int64_t>& offsets) {
  const Tensor& input = work.submitted->inputs[0];
  const int64_t slot = BytesOfSlots(input, comm_->size()) / comm_->size();
  std::byte* const slots = gpu_.BufferOf(static_cast<size_t>(BytesOfSlots(input, comm_->size())));
  Stream& stream = NcclStreamOf(work);
  for (int r = 0; r < comm_->size(); ++r) {
    const auto at = static_cast<size_t>(r);
    CopyOnDevice(slots + r * slot, static_cast<const std::byte*>(input.raw()) + offsets[at],
                 static_cast<size_t>(offsets[at + 1] - offsets[at]), stream);
  }
  gpu_.nccl().ReduceScatter(slots, slot / static_cast<int64_t>(SizeOf(input.dtype())),
                            input.dtype(), work.agreed.request.op);
  CopyOnDevice(work.made.raw(), slots + comm_->rank() * slot, work.made.bytes(), stream);
  gpu_.nccl().Wait();
  stream.Synchronize();  // the copy after the sum is short
}

void CollectiveExecutor::AllToAll(const CollectiveWork& work) {
  const Tensor& input = work.submitted->inputs[0];
  const int64_t row_bytes = BytesOfRow(input);
  const auto me = static_cast<size_t>(comm_->rank());
  std::vector<int64_t> received;
  for (const auto& splits : work.agreed.rows) received.push_back(splits[me]);
  const std::vector<int64_t> from = Offsets(work.agreed.rows[me], row_bytes);
  const std::vector<int64_t> to = Offsets(received, row_bytes);
  if (TakesNccl(work)) {
    Stream& stream = NcclStreamOf(work);
    gpu_.nccl().AllToAll(input.raw(), from, work.made.raw(), to);
    gpu_.nccl().Wait();
    stream.Synchronize();  // the copy of the rows that stay here is short
  } else {
    comm_->StartAllToAllV(input.raw(), from, work.made.raw(), to)->Wait();
  }
  HandOver(work, std::move(received));
}

}  // namespace dtrain::internal
