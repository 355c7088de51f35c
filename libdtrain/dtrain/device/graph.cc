// graph.cc - records by stream capture; does nothing without CUDA.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/graph.h"

#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/device/cuda/error.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain {

Graph::Graph(Stream& stream, const std::function<void()>& issue) : device_(stream.device()) {
  DT_CHECK(device_.type == DeviceType::kCuda) << "only a GPU records its work";
  if constexpr (kWithCuda) {
    cuda::BeginCapture(device_, stream.handle());
    try {
      issue();
    } catch (...) {
      try {
        cuda::DestroyGraph(device_, cuda::EndCapture(device_, stream.handle()));
      } catch (const CudaError&) {
        // CUDA refuses to end the capture because issue() failed, and issue()'s own error is
        // rethrown below.
      }
      throw;
    }
    handle_ = cuda::EndCapture(device_, stream.handle());
  }
}

Graph::Graph(Graph&& other) noexcept { *this = std::move(other); }

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Graph::~Graph() {
  if constexpr (kWithCuda) {
    if (handle_ != nullptr) cuda::DestroyGraph(device_, handle_);
  }
}

void Graph::Launch(Stream& stream) const {
  DT_CHECK(handle_ != nullptr) << "nothing was recorded";
  if constexpr (kWithCuda) cuda::LaunchGraph(device_, handle_, stream.handle());
}

}  // namespace dtrain
