// estimate.h - what a run will cost, from its configuration alone.
// SPDX-License-Identifier: Apache-2.0
//
// The formulas are those by which runs plan: models/seq2seq_costs.h, tasks/shared/bert_head.h.
// Nothing is allocated or computed; of the files only those are read that say a shape: the header
// of data.prepared's training shard, a vocabulary, the config.json of pretrained weights, where
// there are some. Micro-batches are counted with the activations. Beside what is counted a process
// has its program and libraries (some 40 MiB), buffers of its messages and of products, and the
// index of its data.
#ifndef DTRAIN_PLANNING_ESTIMATE_H_
#define DTRAIN_PLANNING_ESTIMATE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/models/seq2seq_costs.h"
#include "dtrain/tasks/shared/bert_head.h"
#include "dtrain/tasks/shared/memory_plan.h"

namespace dtrain::proto {
class BertConfig;
class NmtConfig;
class PretrainConfig;
class SquadConfig;
}  // namespace dtrain::proto

namespace dtrain {

struct EstimateOptions {
  int ranks = 1;  // of the job, all on one host
  // Mean tokens of a sentence with its end; 0: the corpus, else 32. Of a BERT's texts; 0:
  // data.max_length.
  double source_length = 0.0;
  double target_length = 0.0;     // of nmt_train alone
  double length_deviation = 0.0;  // of a BERT's texts: the standard deviation of their tokens
  double flops = 0.0;             // floating-point operations of a rank per second; 0: not known
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

// Of any model.
struct Estimate {
  std::string program;  // "bert_squad"
  int ranks = 1;
  DeviceType device = DeviceType::kCpu;
  DType compute_type = DType::kFloat32;
  int64_t vocab_size = 0;
  ModelParameters parameters;
  MemoryEstimate memory;
  std::vector<RecomputePlan> choices;  // none, cheap, every_k, full
  double forward_flops = 0.0;          // of one micro-batch
  double flops_per_token = 0.0;        // forward and backward; of translation a target token
  double flops_per_update = 0.0;       // of all ranks, without recomputation
  int64_t tokens_per_batch = 0;        // of an update, all ranks; of translation target tokens
  int64_t texts_per_batch = 0;         // the same, where updates are so many texts; else 0
  double seconds_per_update = 0.0;     // with recomputation; 0 where EstimateOptions::flops is
  int64_t checkpoint_bytes = 0;        // tensors of one checkpoint
  std::vector<std::string> notes;      // files that would say more, and what was taken instead
};

struct TranslationEstimate : Estimate {
  Seq2SeqOptions model;
  MeanLengths lengths;
  MemoryPlan plan;     // of the configuration
  int64_t logits = 0;  // bytes, part of the activations
};

struct BertEstimate : Estimate {
  BertHead head;
  TextLengths lengths;
  BertMemoryPlan plan;  // of the configuration
};

// UsageError where the configuration is none, a length is none that its texts may have,
// recompute=auto needs a GPU that is not there, or the shape is that of pretrained weights which
// are not there.
StatusOr<TranslationEstimate> EstimateRun(const proto::NmtConfig& config,
                                          const EstimateOptions& options);
StatusOr<BertEstimate> EstimateRun(const proto::BertConfig& config, const EstimateOptions& options);
StatusOr<BertEstimate> EstimateRun(const proto::PretrainConfig& config,
                                   const EstimateOptions& options);
StatusOr<BertEstimate> EstimateRun(const proto::SquadConfig& config,
                                   const EstimateOptions& options);

// What the busiest of the ranks computes of an update: of `texts` whole ones, or where these are 0
// of tokens, which ranks share evenly.
double BusiestShare(int64_t texts, int ranks);

// For people.
std::string EstimateText(const TranslationEstimate& estimate);
std::string EstimateText(const BertEstimate& estimate);
// One object, bytes and counts as integers.
std::string EstimateJson(const TranslationEstimate& estimate);
std::string EstimateJson(const BertEstimate& estimate);

}  // namespace dtrain

#endif  // DTRAIN_PLANNING_ESTIMATE_H_
