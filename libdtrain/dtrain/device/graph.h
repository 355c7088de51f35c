// graph.h - work of a GPU's stream, recorded once and repeated with one call: a CUDA graph.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_GRAPH_H_
#define DTRAIN_DEVICE_GRAPH_H_

#include <functional>

#include "dtrain/device/stream.h"

namespace dtrain {

class Graph {
 public:
  Graph() = default;
  // Records what issue() issues to `stream`, of a GPU; nothing of it runs. CudaError where it waits
  // for the device, allocates or copies from host memory: the stream is then as it was. What
  // issue() throws itself is passed on.
  Graph(Stream& stream, const std::function<void()>& issue);
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  explicit operator bool() const { return handle_ != nullptr; }
  // Issues the recorded work once more, at the addresses it was recorded with.
  void Launch(Stream& stream) const;

 private:
  Device device_;
  void* handle_ = nullptr;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_GRAPH_H_
