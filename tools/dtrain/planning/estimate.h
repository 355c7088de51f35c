// estimate.h - what a run will cost, from its configuration alone.
// SPDX-License-Identifier: Apache-2.0
//
// The formulas are those by which runs plan: each task makes a Workload of its configuration
// (tasks/shared/workload.h). Nothing is allocated or computed. Micro-batches are counted with the
// activations. Besides what is counted a process has its program and libraries (some 40 MiB),
// buffers of its messages and of products, and the index of its data.
#ifndef DTRAIN_PLANNING_ESTIMATE_H_
#define DTRAIN_PLANNING_ESTIMATE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/shared/workload.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace dtrain {

struct EstimateOptions {
  int ranks = 1;  // these four as in WorkloadOptions
  double source_length = 0.0;
  double target_length = 0.0;
  double length_deviation = 0.0;
  double flops = 0.0;  // floating-point operations of a rank per second; 0: not known
};

// Bytes of one rank.
struct MemoryEstimate {
  int64_t weights = 0;       // fp32 masters
  int64_t compute_copy = 0;  // bf16 or fp16
  int64_t gradients = 0;
  int64_t moments = 0;
  int64_t average = 0;  // of optimizer.ema_decay
  int64_t positions = 0;
  int64_t activations = 0;
  // The largest batch of an evaluation, at most: there may be less to evaluate on. In the
  // activations' memory.
  int64_t evaluation = 0;
  int64_t exchange = 0;  // between several ranks on CPUs: what slow networks' options keep, at most
  int64_t workspace = 0;  // of matrix products on a GPU, at most

  int64_t states() const { return weights + compute_copy + gradients + moments + average; }
  int64_t total() const {
    return states() + positions + std::max(activations, evaluation) + exchange + workspace;
  }
};

struct Estimate {
  std::string program;  // "bert_squad"
  int ranks = 1;
  Workload workload;
  MemoryEstimate memory = {};
  MemoryPlan plan = {};                     // with the configuration's recomputation
  std::vector<RecomputePlan> choices = {};  // none, cheap, every_k, full
  double model_flops = 0.0;                 // of one micro-batch, forward and backward
  double flops_per_update = 0.0;            // of all ranks, without recomputation
  double seconds_per_update = 0.0;          // with recomputation; 0 where EstimateOptions::flops is
  int64_t checkpoint_bytes = 0;             // tensors of one checkpoint
};

// `config` is the configuration of one of the programs (tasks/registry.h).
// UsageError: the configuration is not valid, a length is not one of its texts, recompute=auto
// needs a GPU that is not there, or the shape is that of pretrained weights which are not there.
StatusOr<Estimate> EstimateRun(const google::protobuf::Message& config,
                               const EstimateOptions& options);

// The share of an update that the busiest rank computes. Ranks share `texts` whole texts, or with 0
// texts tokens, which they share evenly.
double BusiestShare(int64_t texts, int ranks);

// For people.
std::string EstimateText(const Estimate& estimate);
// One object, bytes and counts as integers.
std::string EstimateJson(const Estimate& estimate);

}  // namespace dtrain

#endif  // DTRAIN_PLANNING_ESTIMATE_H_
