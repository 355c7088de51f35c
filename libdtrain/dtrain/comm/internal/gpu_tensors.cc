// gpu_tensors.cc - connects GPUs once, decides who moves what, copies what the host moves.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/gpu_tensors.h"

#include <algorithm>
#include <string>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/tensor.h"

namespace dtrain::internal {

bool UsesGpu(const CollectiveRequest& request) {
  return std::any_of(request.items.begin(), request.items.end(),
                     [](const auto& item) { return item.device == DeviceType::kCuda; });
}

void GpuTensors::Meet(const Device& device) {
  if (std::exchange(has_met_, true)) return;
  std::string why;
  nccl_ = MakeDeviceCommunicator(*comm_, device, &why);
  if (!nccl_ && comm_->is_root()) {
    LogInfo("named tensors travel through the host's memory, without NCCL: " + why);
  }
}

bool GpuTensors::TakesNccl(const CollectiveRequest& request) const {
  if (!nccl_) return false;
  const bool is_extreme = request.op == ReduceOp::kMin || request.op == ReduceOp::kMax;
  for (const CollectiveRequest::Item& item : request.items) {
    if (item.device == DeviceType::kCpu) return false;
    // NCCL's pass over NaN.
    if (is_extreme && !IsInteger(item.dtype)) return false;
  }
  const bool reduces =
      request.kind == CollectiveKind::kAllReduce || request.kind == CollectiveKind::kReduceScatter;
  if (!reduces) return true;
  return request.op != ReduceOp::kBitAnd && request.prescale == 1 && request.postscale == 1;
}

Tensor GpuTensors::NewForNccl(const Shape& shape, DType dtype) const {
  return NewTensor(shape, dtype, nccl_->stream().device());
}

std::byte* GpuTensors::BufferOf(size_t bytes) {
  if (buffer_.bytes() < bytes) {
    buffer_ = Buffer();
    buffer_ = Buffer(nccl_->stream().device(), bytes);
  }
  return buffer_.data();
}

Stream& GpuTensors::StreamOf(const Device& device) {
  if (!stream_) stream_.emplace(device);
  DT_CHECK(stream_->device() == device) << "a rank's tensors lie on one GPU";
  return *stream_;
}

std::vector<Tensor> GpuTensors::Fetch(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs,
                                      const StreamMark* ready) {
  std::vector<Tensor> originals = outputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor& input = inputs[i];
    if (input.device().type == DeviceType::kCpu) continue;
    Stream& stream = StreamOf(input.device());
    if (ready != nullptr) RunBehind(stream, *ready);
    const Tensor host = NewTensor(input.shape(), input.dtype());
    CopyToHost(host.raw(), input.raw(), input.bytes(), stream);
    input = host;
    if (!outputs.empty()) outputs[i] = host;
  }
  return originals;
}

void GpuTensors::Return(const std::vector<Tensor>& from, const std::vector<Tensor>& to) {
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].device().type == DeviceType::kCpu) continue;
    Stream& stream = StreamOf(to[i].device());
    CopyToDevice(to[i].raw(), from[i].raw(), to[i].bytes(), stream);
  }
  if (stream_) stream_->Synchronize();
}

Tensor GpuTensors::NewOnGpu(const Tensor& host) const {
  DT_CHECK(stream_.has_value());
  return NewTensor(host.shape(), host.dtype(), stream_->device());
}

}  // namespace dtrain::internal
