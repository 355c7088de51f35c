// graph.h - records a GPU stream's work once and repeats it with one call (a CUDA graph).
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_GRAPH_H_
#define DTRAIN_DEVICE_GRAPH_H_

#include <functional>

#include "dtrain/device/stream.h"

namespace dtrain {

class Graph {
 public:
  Graph() = default;
  // Records the work that issue() issues to `stream`, which must be a GPU's; none of it runs.
  // Throws CudaError if issue() waits for the device, allocates or copies from host memory; the
  // stream is then unchanged. Exceptions thrown by issue() are passed on.
  Graph(Stream& stream, const std::function<void()>& issue);
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  explicit operator bool() const { return handle_ != nullptr; }
  // Issues the recorded work again, with the addresses used while recording.
  void Launch(Stream& stream) const;

 private:
  Device device_;
  void* handle_ = nullptr;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_GRAPH_H_
