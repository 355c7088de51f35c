// kernel_bench_ops.h - the models kernel_bench takes its sizes from, and their ops.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_BENCH_KERNEL_BENCH_OPS_H_
#define DTRAIN_TOOLS_BENCH_KERNEL_BENCH_OPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "device_meter.h"

namespace dtrain {

struct ModelSizes {
  std::string name;
  int64_t sequences = 0;  // of `length` tokens each
  int32_t length = 0;
  int64_t hidden = 0, ffn = 0;
  int num_heads = 0;
  int64_t vocab = 0;
  int64_t loss_rows = 0;    // tokens with a loss
  int64_t parameters = 0;   // of the whole model, for what works on all of them
  bool translates = false;  // ReLU, label smoothing, causal and cross attention
};

const std::vector<ModelSizes>& BenchModels();

// Measures every op in the sizes the model has it in.
void BenchModelOps(DeviceMeter& meter, const ModelSizes& model);

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_BENCH_KERNEL_BENCH_OPS_H_
