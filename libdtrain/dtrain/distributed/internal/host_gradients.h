// host_gradients.h - the flat gradients in the host's memory, where communicators reach them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_HOST_GRADIENTS_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_HOST_GRADIENTS_H_

#include <memory>
#include <optional>

#include "dtrain/device/arena.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/internal/bucket_exchange.h"

namespace dtrain::internal {

// On the CPU these are the gradients themselves, without a copy. For a GPU it is pinned memory.
class HostGradients {
 public:
  // flat: [n] float32. compute: the stream that writes it. Without one Fetch() waits for all
  // streams of the device, which is refused while a thread of the process records a graph.
  HostGradients(const Tensor& flat, const std::optional<Stream>& compute);

  float* data() const { return data_; }
  // Copies the range to the host after the work that was issued to `compute`, and waits.
  void Fetch(const BucketRange& range);
  // Begins to copy the range back. It must stay unchanged until Synchronize() returns.
  void Return(const BucketRange& range);
  void Synchronize() { stream_.Synchronize(); }
  Stream& stream() { return stream_; }

 private:
  Tensor flat_;
  std::optional<Stream> compute_;
  Stream stream_;
  std::shared_ptr<Arena> arena_;
  Tensor staging_;  // absent on the CPU
  float* data_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_HOST_GRADIENTS_H_
