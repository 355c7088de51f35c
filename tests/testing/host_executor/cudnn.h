// cudnn.h - what tests tell the emulated cuDNN to do, and what it did.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_HOST_EXECUTOR_CUDNN_H_
#define DTRAIN_TESTS_TESTING_HOST_EXECUTOR_CUDNN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "dtrain/device/cuda/fused_attention.h"

namespace dtrain::host_executor {

// Of the calling thread.
struct CudnnSettings {
  std::string missing = {};  // why it cannot be used; empty: it can
  size_t version = 91900;
  // Of each graph; it is overwritten whenever the graph runs.
  size_t workspace_bytes = 4096;
  // Whether it has a kernel.
  std::function<bool(const cuda::FusedAttentionShape&)> supports =
      [](const cuda::FusedAttentionShape&) { return true; };
  // Seconds that one run takes on the emulated GPU's clock.
  std::function<double(const cuda::FusedAttentionShape&)> seconds =
      [](const cuda::FusedAttentionShape&) { return 0.0; };

  cuda::FusedAttentionShape last = {};  // that ran
  int64_t graphs = 0;                   // that were asked for
  int64_t runs = 0;
};
CudnnSettings& Cudnn();

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTS_TESTING_HOST_EXECUTOR_CUDNN_H_
