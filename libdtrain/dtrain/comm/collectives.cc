// collectives.cc - checks what callers submit and wraps the queue.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/collectives.h"

#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/collective_queue.h"
#include "dtrain/comm/internal/heartbeat_wait.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain {
namespace {

using internal::CollectiveKind;
using internal::CollectiveRequest;
using internal::SubmittedCollective;

// What is wrong with a tensor that is not contiguous; "".
std::string CheckContiguous(const Tensor& tensor) {
  if (tensor.is_contiguous()) return "";
  return absl::StrFormat("the tensor is a view of %d columns with a row stride of %d; copy it",
                         tensor.dim(tensor.shape().rank() - 1), tensor.row_stride());
}

std::unique_ptr<SubmittedCollective> Describe(CollectiveKind kind, std::string_view name,
                                              std::span<const Tensor> inputs,
                                              std::span<const Tensor> outputs = {}) {
  auto submitted = std::make_unique<SubmittedCollective>();
  submitted->request.name = name;
  submitted->request.kind = kind;
  std::string& refusal = submitted->request.refusal;
  for (const Tensor& tensor : inputs) {
    if (refusal.empty()) refusal = CheckContiguous(tensor);
    if (tensor.raw() == nullptr && tensor.elements() > 0) refusal = "the tensor is absent";
    submitted->request.items.push_back({tensor.dtype(), tensor.device().type, tensor.shape()});
    if (!kWithCuda && tensor.device().type != DeviceType::kCpu) {
      refusal = "the tensor lies on a GPU, and this build has no CUDA";
    }
  }
  submitted->inputs.assign(inputs.begin(), inputs.end());
  submitted->outputs.assign(outputs.begin(), outputs.end());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (refusal.empty()) refusal = CheckContiguous(outputs[i]);
    if (outputs[i].shape() != inputs[i].shape() || outputs[i].dtype() != inputs[i].dtype() ||
        outputs[i].device() != inputs[i].device()) {
      refusal = "the output has another shape, type or device than the input";
    } else if (outputs[i].raw() == nullptr && outputs[i].elements() > 0) {
      refusal = "the tensor is absent";
    }
  }
  return submitted;
}

void SetReduction(const ReduceOptions& options, CollectiveRequest* request) {
  request->op = options.op;
  request->prescale = options.prescale;
  request->postscale = options.postscale;
  if (!std::isfinite(options.prescale) || !std::isfinite(options.postscale)) {
    request->refusal = "a scale factor is not a finite number";
  }
  for (const CollectiveRequest::Item& item : request->items) {
    const bool integer =
        item.dtype == DType::kInt32 || item.dtype == DType::kInt64 || item.dtype == DType::kUint8;
    if (options.op == ReduceOp::kAverage && integer) {
      request->refusal = "an average needs a floating type; use a sum";
    } else if (options.op == ReduceOp::kBitAnd && !integer) {
      request->refusal = "a bitwise and needs integers";
    }
  }
}

void SetRoot(int root, int size, CollectiveRequest* request) {
  request->root = root;
  if (root >= 0 && root < size) return;
  request->refusal = absl::StrFormat("there is no root %d among %d ranks", root, size);
}

std::string CheckRows(const Tensor& tensor) {
  return tensor.shape().rank() == 0 ? "a scalar has no rows; give it a shape of [1]" : "";
}

// Rows to each rank; on an error of the caller the message, and no splits.
std::string FindSplits(const Tensor& tensor, std::span<const int64_t> given, int size,
                       std::vector<int64_t>* splits) {
  std::string wrong = CheckRows(tensor);
  if (!wrong.empty()) return wrong;
  const int64_t rows = tensor.dim(0);
  if (given.empty()) {
    if (rows % size != 0) {
      return absl::StrFormat("%d rows do not divide among %d ranks; give splits", rows, size);
    }
    splits->assign(static_cast<size_t>(size), rows / size);
    return "";
  }
  if (given.size() != static_cast<size_t>(size)) {
    return absl::StrFormat("%d splits for %d ranks", given.size(), size);
  }
  int64_t sum = 0;
  for (const int64_t split : given) {
    if (split < 0 || split > rows) {
      return absl::StrFormat("a split of %d rows, but the tensor has %d", split, rows);
    }
    sum += split;
  }
  if (sum != rows) {
    return absl::StrFormat("the splits add to %d, but the tensor has %d rows", sum, rows);
  }
  splits->assign(given.begin(), given.end());
  return "";
}

}  // namespace

CollectiveHandle::CollectiveHandle(std::shared_ptr<internal::CollectiveResult> result,
                                   std::string name,
                                   std::shared_ptr<const internal::QueueProgress> progress)
    : result_(std::move(result)), name_(std::move(name)), progress_(std::move(progress)) {}

bool CollectiveHandle::Poll() const {
  DT_CHECK(result_ != nullptr) << "this handle stands for no collective";
  return result_->done;
}

Status CollectiveHandle::Wait() const {
  DT_CHECK(result_ != nullptr) << "this handle stands for no collective";
  constexpr std::chrono::milliseconds kRound(10);
  constexpr double kIdleSeconds = 0.1;  // as in communicators
  progress_->heartbeat->NameCollective(name_);
  if (!result_->done && result_->hurry) result_->hurry();
  internal::HeartbeatWait mark(progress_->heartbeat.get());
  Timer idle;
  int64_t exchanges = progress_->exchanges;
  std::unique_lock lock(result_->mutex);
  while (!result_->finished.wait_for(lock, kRound, [&] { return result_->done.load(); })) {
    mark.Round();
    // Also tensors that others wait for: this wait may only be behind them.
    const int64_t before = std::exchange(exchanges, progress_->exchanges.load());
    if (exchanges != before || exchanges % 2 != 0) {
      mark.Moved();
      idle.Restart();
    } else if (idle.Seconds() > kIdleSeconds) {
      mark.Idle();
    }
  }
  mark.Round();
  return result_->outcome.status();
}

const Tensor& CollectiveHandle::output() const {
  DT_CHECK(Poll()) << "the collective is not finished";
  return result_->output;
}

const std::vector<int64_t>& CollectiveHandle::rows() const {
  DT_CHECK(Poll()) << "the collective is not finished";
  return result_->rows;
}

int CollectiveHandle::last_joined() const {
  DT_CHECK(Poll()) << "the collective is not finished";
  return result_->last_joined;
}

Status WaitAll(std::span<const CollectiveHandle> handles) {
  Status first;
  for (const CollectiveHandle& handle : handles) first.Update(handle.Wait());
  return first;
}

Collectives::Collectives(Communicator& comm, const CollectivesOptions& options)
    : rank_(comm.rank()), size_(comm.size()), gpu_stream_(options.gpu_stream) {
  DT_CHECK_GE(options.cache_entries, 0);
  DT_CHECK_GE(options.fusion_bytes, 0);
  DT_CHECK_GE(options.cycle_seconds, 0);
  DT_CHECK_GE(options.timeout_seconds, 0);
  DT_CHECK_GT(options.stall_warning_seconds, 0);
  std::unique_ptr<Communicator> own = comm.Split(0);
  // What decides about the order of exchanges must be the same everywhere.
  CollectivesOptions common = options;
  std::array<int64_t, 2> numbers = {options.fusion_bytes, options.cache_entries};
  own->Broadcast(numbers.data(), static_cast<int64_t>(sizeof(numbers)), 0);
  common.fusion_bytes = numbers[0];
  common.cache_entries = numbers[1];
  queue_ = std::make_unique<internal::CollectiveQueue>(std::move(own), common);
}

Collectives::~Collectives() = default;

CollectiveHandle Collectives::Submit(std::unique_ptr<SubmittedCollective> submitted) {
  for (const std::vector<Tensor>* tensors : {&submitted->inputs, &submitted->outputs}) {
    for (const Tensor& tensor : *tensors) {
      if (tensor.device().type == DeviceType::kCpu) continue;
      int first = -1;
      if (!gpu_.compare_exchange_strong(first, tensor.device().index) &&
          first != tensor.device().index) {
        submitted->request.refusal = absl::StrFormat(
            "the tensor lies on GPU %d, earlier ones on GPU %d: a rank's lie on one",
            tensor.device().index, first);
      }
    }
  }
  if (gpu_stream_ != nullptr && internal::UsesGpu(submitted->request)) {
    submitted->ready = std::make_unique<StreamMark>(*gpu_stream_);
  }
  const CollectiveRequest& request = submitted->request;
  std::string name(request.name.empty() ? Name(request.kind) : request.name);
  return {queue_->Submit(std::move(submitted)), std::move(name), queue_->progress()};
}

CollectiveHandle Collectives::AllReduce(std::string_view name, const Tensor& tensor,
                                        const ReduceOptions& options) {
  return AllReduce(name, tensor, tensor, options);
}

CollectiveHandle Collectives::AllReduce(std::string_view name, const Tensor& input,
                                        const Tensor& output, const ReduceOptions& options) {
  auto submitted = Describe(CollectiveKind::kAllReduce, name, {&input, 1}, {&output, 1});
  SetReduction(options, &submitted->request);
  return Submit(std::move(submitted));
}

CollectiveHandle Collectives::GroupedAllReduce(std::string_view name,
                                               std::span<const Tensor> tensors,
                                               const ReduceOptions& options) {
  auto submitted = Describe(CollectiveKind::kAllReduce, name, tensors, tensors);
  SetReduction(options, &submitted->request);
  return Submit(std::move(submitted));
}

CollectiveHandle Collectives::AllGather(std::string_view name, const Tensor& tensor) {
  auto submitted = Describe(CollectiveKind::kAllGather, name, {&tensor, 1});
  if (submitted->request.refusal.empty()) submitted->request.refusal = CheckRows(tensor);
  return Submit(std::move(submitted));
}

CollectiveHandle Collectives::Broadcast(std::string_view name, const Tensor& tensor, int root) {
  return Broadcast(name, tensor, tensor, root);
}

CollectiveHandle Collectives::Broadcast(std::string_view name, const Tensor& input,
                                        const Tensor& output, int root) {
  auto submitted = Describe(CollectiveKind::kBroadcast, name, {&input, 1}, {&output, 1});
  SetRoot(root, size_, &submitted->request);
  return Submit(std::move(submitted));
}

CollectiveHandle Collectives::ReduceScatter(std::string_view name, const Tensor& tensor,
                                            const ReduceOptions& options) {
  auto submitted = Describe(CollectiveKind::kReduceScatter, name, {&tensor, 1});
  SetReduction(options, &submitted->request);
  if (submitted->request.refusal.empty()) submitted->request.refusal = CheckRows(tensor);
  return Submit(std::move(submitted));
}

CollectiveHandle Collectives::AllToAll(std::string_view name, const Tensor& tensor,
                                       std::span<const int64_t> splits) {
  auto submitted = Describe(CollectiveKind::kAllToAll, name, {&tensor, 1});
  if (submitted->request.refusal.empty()) {
    submitted->request.refusal = FindSplits(tensor, splits, size_, &submitted->request.splits);
  }
  return Submit(std::move(submitted));
}

Status Collectives::Barrier() {
  return Submit(Describe(CollectiveKind::kBarrier, "Barrier()", {})).Wait();
}

StatusOr<int> Collectives::Join() {
  const CollectiveHandle handle = Submit(Describe(CollectiveKind::kJoin, internal::kJoinName, {}));
  DT_RETURN_IF_ERROR(handle.Wait());
  return handle.last_joined();
}

namespace {

std::unique_ptr<SubmittedCollective> DescribeBytes(std::string_view name, std::string_view bytes) {
  const Tensor tensor(const_cast<char*>(bytes.data()), {static_cast<int64_t>(bytes.size())},
                      DType::kUint8);
  return Describe(CollectiveKind::kAllGather, name, {&tensor, 1});
}

std::vector<std::string> TextsOf(const CollectiveHandle& handle) {
  std::vector<std::string> texts;
  const char* from = static_cast<const char*>(handle.output().raw());
  for (const int64_t length : handle.rows()) {
    texts.emplace_back(from, static_cast<size_t>(length));
    from += length;
  }
  return texts;
}

}  // namespace

StatusOr<std::vector<std::string>> Collectives::AllGatherBytes(std::string_view name,
                                                               std::string_view bytes) {
  const CollectiveHandle handle = Submit(DescribeBytes(name, bytes));
  DT_RETURN_IF_ERROR(handle.Wait());
  return TextsOf(handle);
}

StatusOr<std::string> Collectives::BroadcastBytes(std::string_view name, std::string_view bytes,
                                                  int root) {
  // As a gather, the others do not need to know the length.
  auto submitted = DescribeBytes(name, rank_ == root ? bytes : std::string_view());
  SetRoot(root, size_, &submitted->request);
  const CollectiveHandle handle = Submit(std::move(submitted));
  DT_RETURN_IF_ERROR(handle.Wait());
  return std::move(TextsOf(handle)[static_cast<size_t>(root)]);
}

void Collectives::Abort(std::string_view reason) { queue_->Abort(reason); }

Collectives::Statistics Collectives::statistics() const { return queue_->statistics(); }

}  // namespace dtrain
