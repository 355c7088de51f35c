// collective_executor.cc - fusion of tensors, scale factors, and outputs of unknown size.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/collective_executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/new_tensor.h"

namespace dtrain::internal {
namespace {

// Calls body.operator()<T>() with the C++ type of `dtype`.
template <typename Body>
void DispatchType(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kFloat64:
      return body.template operator()<double>();
    case DType::kBFloat16:
      return body.template operator()<BFloat16>();
    case DType::kFloat16:
      return body.template operator()<Float16>();
    case DType::kInt32:
      return body.template operator()<int32_t>();
    case DType::kInt64:
      return body.template operator()<int64_t>();
    case DType::kUint8:
      return body.template operator()<uint8_t>();
  }
}

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

// Cut off towards zero, and at the limits of the type.
template <typename T>
T ScaledInteger(T value, double factor) {
  const double scaled = std::trunc(static_cast<double>(value) * factor);
  if (!(scaled > static_cast<double>(std::numeric_limits<T>::min()))) {
    return std::numeric_limits<T>::min();
  }
  if (scaled >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(scaled);
}

void Scale(void* data, int64_t count, DType dtype, double factor) {
  if (factor == 1) return;
  DispatchType(dtype, [&]<typename T>() {
    T* const values = static_cast<T*>(data);
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (kIsHalf<T>) {
        values[i] = T(static_cast<float>(values[i]) * static_cast<float>(factor));
      } else if constexpr (std::is_integral_v<T>) {
        values[i] = ScaledInteger(values[i], factor);
      } else {
        values[i] = static_cast<T>(values[i] * static_cast<T>(factor));
      }
    }
  });
}

// What changes no other rank's result.
template <typename T>
T Identity(ReduceOp op) {
  using Limits = std::numeric_limits<std::conditional_t<kIsHalf<T>, float, T>>;
  const auto lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  const auto highest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return T{};
    case ReduceOp::kProduct:
      return static_cast<T>(1.0f);
    case ReduceOp::kMin:
      return static_cast<T>(highest);
    case ReduceOp::kMax:
      return static_cast<T>(lowest);
    case ReduceOp::kBitAnd:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(~T{});
  }
  return T{};
}

void FillWithIdentity(void* data, int64_t count, DType dtype, ReduceOp op) {
  DispatchType(dtype,
               [&]<typename T>() { std::fill_n(static_cast<T*>(data), count, Identity<T>(op)); });
}

void Copy(const void* from, void* to, size_t bytes) {
  if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
}

Shape WithRows(const Shape& shape, int64_t rows) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[0] = rows;
  return Shape(dims);
}

// What a reduce-scatter leaves on each of `ranks`.
std::vector<int64_t> RowsOf(int64_t rows, int ranks) {
  std::vector<int64_t> of_ranks;
  for (int r = 0; r < ranks; ++r) of_ranks.push_back(rows / ranks + (r < rows % ranks ? 1 : 0));
  return of_ranks;
}

int64_t BytesOfRow(const Tensor& tensor) {
  int64_t elements = 1;
  for (int i = 1; i < tensor.shape().rank(); ++i) elements *= tensor.dim(i);
  return elements * static_cast<int64_t>(SizeOf(tensor.dtype()));
}

// Running sums of `rows`, times `unit`.
std::vector<int64_t> Offsets(const std::vector<int64_t>& rows, int64_t unit) {
  std::vector<int64_t> offsets{0};
  for (const int64_t r : rows) offsets.push_back(offsets.back() + r * unit);
  return offsets;
}

}  // namespace

Status CollectiveOutcome::status() const {
  if (ok()) return OkStatus();
  return Status(code, message);
}

void CollectiveResult::Finish(CollectiveOutcome how) {
  const std::lock_guard lock(mutex);
  if (done) return;
  outcome = std::move(how);
  done = true;
  finished.notify_all();
}

void CollectiveExecutor::Run(std::vector<Work>& batch, bool some_joined) {
  MeetOnGpus(batch);
  std::vector<Fused> fused = Fuse(batch);
  if (NeedsMemory(batch, fused, some_joined)) {
    const std::string lacks = TakeMemory(batch, fused);
    // The others must not wait in an exchange for a rank that cannot take part.
    if (comm_->AllReduceValue<int32_t>(lacks.empty() ? 0 : 1, ReduceOp::kMax) != 0) {
      const std::vector<std::string> texts = comm_->AllGatherStrings(lacks);
      if (!lacks.empty()) throw CollectiveError(ExitCode::kOutOfMemory, lacks);
      const auto is_told = [](const std::string& text) { return !text.empty(); };
      throw CollectiveError(ExitCode::kCommunication,
                            *std::find_if(texts.begin(), texts.end(), is_told));
    }
    fused = Fuse(batch);  // some lie elsewhere now
  }
  AllReduce(fused);
  for (const Work& work : batch) {
    // Joined: only all-reduces and barriers go on.
    if (work.submitted) Move(work);
  }
  ReturnToGpus(batch);
}

void CollectiveExecutor::Move(const Work& work) {
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

std::unique_ptr<SubmittedCollective> CollectiveExecutor::CopyOf(
    const SubmittedCollective& submitted) {
  auto copy = std::make_unique<SubmittedCollective>();
  copy->request = submitted.request;
  copy->result = std::make_shared<CollectiveResult>();
  for (const Tensor& input : submitted.inputs) {
    Tensor& own =
        copy->inputs.emplace_back(NewTensor(input.shape(), input.dtype(), input.device()));
    if (input.bytes() == 0) continue;
    Stream stream(input.device());
    if (submitted.ready) RunBehind(stream, *submitted.ready);
    CopyOnDevice(own.raw(), input.raw(), input.bytes(), stream);
    stream.Synchronize();
  }
  if (!submitted.outputs.empty()) copy->outputs = copy->inputs;
  return copy;
}

void CollectiveExecutor::MeetOnGpus(const std::vector<Work>& batch) {
  bool uses_gpus = false;
  for (const Work& work : batch) {
    if (!UsesGpu(work.agreed.request)) continue;
    uses_gpus = true;
    if (!work.submitted) continue;
    for (const Tensor& tensor : work.submitted->inputs) {
      if (tensor.device().type == DeviceType::kCuda) gpu_device_ = tensor.device();
    }
  }
  if (uses_gpus) gpu_.Meet(gpu_device_);
}

void CollectiveExecutor::FetchFromGpu(Work& work) {
  const CollectiveRequest& request = work.agreed.request;
  if (!UsesGpu(request) || gpu_.TakesNccl(request)) return;
  SubmittedCollective& submitted = *work.submitted;
  work.gpu_outputs = gpu_.Fetch(submitted.inputs, submitted.outputs, submitted.ready.get());
}

bool CollectiveExecutor::NeedsMemory(const std::vector<Work>& batch,
                                     const std::vector<Fused>& fused, bool some_joined) {
  bool needs = false;
  for (const Work& work : batch) {
    const CollectiveRequest& request = work.agreed.request;
    const bool makes = request.kind == CollectiveKind::kAllGather ||
                       request.kind == CollectiveKind::kReduceScatter ||
                       request.kind == CollectiveKind::kAllToAll;
    needs = needs || makes || (UsesGpu(request) && !gpu_.TakesNccl(request));
  }
  for (const Fused& f : fused) {
    // A tensor alone stays in its place, but where a rank that has joined has none.
    needs = needs || some_joined;
    int64_t& known = fused_bytes_[f.parts.front().by_nccl ? 1 : 0];
    if (f.parts.size() == 1 || f.bytes <= known) continue;
    known = f.bytes;
    needs = true;
  }
  return needs;
}

std::string CollectiveExecutor::TakeMemory(std::vector<Work>& batch,
                                           const std::vector<Fused>& fused) {
  const CollectiveRequest* request = nullptr;
  int64_t bytes = 0;
  try {
    for (const Fused& f : fused) {
      const Part& first = f.parts.front();
      request = first.request;
      bytes = f.bytes;
      const bool alone = f.parts.size() == 1 && first.to != nullptr;
      // Of a rank that has joined the host's buffer has what changes no other rank's result.
      const bool lacks = std::ranges::any_of(f.parts, [](const Part& p) { return !p.to; });
      if (!alone && first.by_nccl) gpu_.BufferOf(static_cast<size_t>(bytes));
      if (!alone && (!first.by_nccl || lacks)) Grow(static_cast<size_t>(bytes));
    }
    for (Work& work : batch) {
      if (!work.submitted || work.submitted->inputs.empty()) continue;  // a barrier has none
      request = &work.agreed.request;
      bytes = static_cast<int64_t>(work.submitted->inputs[0].bytes());
      FetchFromGpu(work);
      MakeOutput(work);
    }
  } catch (const std::bad_alloc& error) {
    return absl::StrFormat("%s has no memory for %s \"%s\" (%d bytes): %s",
                           comm_->RankName(comm_->rank()), ToAbsl(Name(request->kind)),
                           request->name, bytes, error.what());
  }
  return "";
}

void CollectiveExecutor::MakeOutput(Work& work) {
  const Tensor& input = work.submitted->inputs[0];
  const auto me = static_cast<size_t>(comm_->rank());
  int64_t rows = 0;
  switch (work.agreed.request.kind) {
    case CollectiveKind::kAllGather:
      for (const auto& of_rank : work.agreed.rows) rows += of_rank[0];
      break;
    case CollectiveKind::kReduceScatter:
      Grow(input.bytes());
      rows = RowsOf(input.dim(0), comm_->size())[me];
      break;
    case CollectiveKind::kAllToAll:
      for (const auto& splits : work.agreed.rows) rows += splits[me];
      break;
    default:
      return;
  }
  work.made = make_tensor_(WithRows(input.shape(), rows), input.dtype());
  if (UsesGpu(work.agreed.request)) work.gpu_made = gpu_.NewOnGpu(work.made);
}

void CollectiveExecutor::Grow(size_t bytes) {
  if (buffer_ && buffer_.bytes() >= bytes) return;
  buffer_ = {};
  buffer_ = make_tensor_(Shape({static_cast<int64_t>(bytes)}), DType::kUint8);
}

void CollectiveExecutor::ReturnToGpus(const std::vector<Work>& batch) {
  for (const Work& work : batch) {
    const CollectiveRequest& request = work.agreed.request;
    if (!work.submitted || !UsesGpu(request) || gpu_.TakesNccl(request)) continue;
    gpu_.Return(work.submitted->outputs, work.gpu_outputs);
    Tensor& result = work.submitted->result->output;
    if (!work.gpu_outputs.empty()) continue;
    gpu_.Return({result}, {work.gpu_made});
    result = work.gpu_made;
  }
}

void CollectiveExecutor::AddPart(const Part& part, std::vector<Fused>* fused) const {
  const int64_t bytes = part.count * static_cast<int64_t>(SizeOf(part.dtype));
  for (Fused& f : *fused) {
    const Part& other = f.parts.front();
    const bool alike = other.dtype == part.dtype && other.request->op == part.request->op &&
                       other.by_nccl == part.by_nccl;
    if (!alike || f.bytes + bytes > fusion_bytes_) continue;
    f.parts.push_back(part);
    f.bytes += bytes;
    return;
  }
  fused->push_back({{part}, bytes});
}

std::vector<CollectiveExecutor::Fused> CollectiveExecutor::Fuse(
    const std::vector<Work>& batch) const {
  std::vector<Fused> fused;
  for (const Work& work : batch) {
    const CollectiveRequest& request = work.agreed.request;
    if (request.kind != CollectiveKind::kAllReduce) continue;
    const bool by_nccl = UsesGpu(request) && gpu_.TakesNccl(request);
    for (size_t i = 0; i < request.items.size(); ++i) {
      Part part{.request = &request,
                .dtype = request.items[i].dtype,
                .count = request.items[i].shape.elements(),
                .by_nccl = by_nccl};
      if (work.submitted) {
        part.from = work.submitted->inputs[i].raw();
        part.to = work.submitted->outputs[i].raw();
        part.ready = work.submitted->ready.get();
      }
      AddPart(part, &fused);
    }
  }
  return fused;
}

void CollectiveExecutor::AllReduce(const std::vector<Fused>& fused) {
  for (const Fused& f : fused) {
    std::string name(Name(CollectiveKind::kAllReduce));
    if (f.parts.size() > 1 && timeline_->is_on()) {
      absl::StrAppendFormat(&name, " of %d", f.parts.size());
    }
    const Timeline::Span span(*timeline_, name, kCommunicationLane, /*index=*/-1, f.bytes);
    if (f.parts.front().by_nccl) {
      ReduceByNccl(f);
    } else {
      Reduce(f);
    }
    tensors_ += static_cast<int64_t>(f.parts.size());
    ++reductions_;
  }
}

void CollectiveExecutor::Reduce(const Fused& fused) {
  const Part& first = fused.parts.front();
  const auto size_of = [](const Part& part) {
    return static_cast<size_t>(part.count) * SizeOf(part.dtype);
  };
  // One tensor alone is reduced where its result is wanted.
  const bool alone = fused.parts.size() == 1 && first.to != nullptr;
  auto* const data = static_cast<std::byte*>(alone ? first.to : buffer_.raw());
  std::byte* at = data;
  for (const Part& part : fused.parts) {
    if (part.to == nullptr) {
      FillWithIdentity(at, part.count, part.dtype, part.request->op);
    } else {
      Copy(part.from, at, size_of(part));
      Scale(at, part.count, part.dtype, part.request->prescale);
    }
    at += size_of(part);
  }
  const auto count = fused.bytes / static_cast<int64_t>(SizeOf(first.dtype));
  comm_->AllReduce(data, count, first.dtype, first.request->op);
  at = data;
  for (const Part& part : fused.parts) {
    if (part.to != nullptr) {
      Copy(at, part.to, size_of(part));
      Scale(part.to, part.count, part.dtype, part.request->postscale);
    }
    at += size_of(part);
  }
}

void CollectiveExecutor::ReduceByNccl(const Fused& fused) {
  DeviceCommunicator& nccl = gpu_.nccl();
  Stream& stream = nccl.stream();
  const Part& first = fused.parts.front();
  const bool alone = fused.parts.size() == 1 && first.to != nullptr;
  std::byte* const data =
      alone ? static_cast<std::byte*>(first.to) : gpu_.BufferOf(static_cast<size_t>(fused.bytes));
  std::byte* at = data;
  for (const Part& part : fused.parts) {
    const size_t bytes = static_cast<size_t>(part.count) * SizeOf(part.dtype);
    if (part.to == nullptr) {
      FillWithIdentity(buffer_.raw(), part.count, part.dtype, part.request->op);
      CopyToDevice(at, buffer_.raw(), bytes, stream);
    } else {
      if (part.ready != nullptr) RunBehind(stream, *part.ready);
      if (part.from != at) CopyOnDevice(at, part.from, bytes, stream);
    }
    at += bytes;
  }
  nccl.AllReduce(data, fused.bytes / static_cast<int64_t>(SizeOf(first.dtype)), first.dtype,
                 first.request->op);
  at = data;
  for (const Part& part : fused.parts) {
    const size_t bytes = static_cast<size_t>(part.count) * SizeOf(part.dtype);
    if (part.to != nullptr && part.to != at) CopyOnDevice(part.to, at, bytes, stream);
    at += bytes;
  }
  nccl.Wait();
  stream.Synchronize();  // what follows the sum is short
}

void CollectiveExecutor::AllGather(const Work& work) {
  const Tensor& input = work.submitted->inputs[0];
  std::vector<int64_t> rows;
  for (const auto& of_rank : work.agreed.rows) rows.push_back(of_rank[0]);
  const std::vector<int64_t> offsets = Offsets(rows, BytesOfRow(input));
  const Tensor& output = work.made;
  const auto me = static_cast<size_t>(comm_->rank());
  Copy(input.raw(), static_cast<std::byte*>(output.raw()) + offsets[me], input.bytes());
  comm_->AllGatherV(output.raw(), offsets);
  work.submitted->result->output = output;
  work.submitted->result->rows = std::move(rows);
}

void CollectiveExecutor::Broadcast(const Work& work) {
  const Tensor& output = work.submitted->outputs[0];
  const int root = work.agreed.request.root;
  if (output.device().type == DeviceType::kCuda) {
    Stream& stream = gpu_.nccl().stream();
    if (work.submitted->ready) RunBehind(stream, *work.submitted->ready);
    const Tensor& input = work.submitted->inputs[0];
    if (comm_->rank() == root && input.raw() != output.raw()) {
      CopyOnDevice(output.raw(), input.raw(), output.bytes(), stream);
    }
    gpu_.nccl().Broadcast(output.raw(), static_cast<int64_t>(output.bytes()), root);
    return gpu_.nccl().Wait();
  }
  if (comm_->rank() == root) Copy(work.submitted->inputs[0].raw(), output.raw(), output.bytes());
  comm_->Broadcast(output.raw(), static_cast<int64_t>(output.bytes()), root);
}

void CollectiveExecutor::ReduceScatter(const Work& work) {
  const CollectiveRequest& request = work.agreed.request;
  const Tensor& input = work.submitted->inputs[0];
  std::vector<int64_t> rows = RowsOf(input.dim(0), comm_->size());
  const int64_t row_bytes = BytesOfRow(input);
  const auto element_bytes = static_cast<int64_t>(SizeOf(input.dtype()));
  Copy(input.raw(), buffer_.raw(), input.bytes());
  Scale(buffer_.raw(), input.elements(), input.dtype(), request.prescale);
  comm_->ReduceScatter(buffer_.raw(), Offsets(rows, row_bytes / element_bytes), input.dtype(),
                       request.op);
  const auto me = static_cast<size_t>(comm_->rank());
  const Tensor& output = work.made;
  Copy(static_cast<std::byte*>(buffer_.raw()) + Offsets(rows, row_bytes)[me], output.raw(),
       output.bytes());
  Scale(output.raw(), output.elements(), output.dtype(), request.postscale);
  work.submitted->result->output = output;
  work.submitted->result->rows = std::move(rows);
}

void CollectiveExecutor::AllToAll(const Work& work) {
  const Tensor& input = work.submitted->inputs[0];
  const int64_t row_bytes = BytesOfRow(input);
  const auto me = static_cast<size_t>(comm_->rank());
  std::vector<int64_t> received;
  for (const auto& splits : work.agreed.rows) received.push_back(splits[me]);
  const Tensor& output = work.made;
  comm_->AllToAllV(input.raw(), Offsets(work.agreed.rows[me], row_bytes), output.raw(),
                   Offsets(received, row_bytes));
  work.submitted->result->output = output;
  work.submitted->result->rows = std::move(received);
}

}  // namespace dtrain::internal
