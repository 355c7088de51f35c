// workload.h - what a configured run computes and keeps, for plans made before it starts.
// SPDX-License-Identifier: Apache-2.0
//
// Each task makes a Workload from its configuration; `dtrain estimate` and `dtrain plan` make
// memory, time and traffic of it. Nothing is allocated or computed. Of the files only those are
// read that give a shape: the header of data.prepared's training shard, a vocabulary, the
// config.json of pretrained weights.
#ifndef DTRAIN_TASKS_SHARED_WORKLOAD_H_
#define DTRAIN_TASKS_SHARED_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/nn/costs.h"
#include "dtrain/tasks/shared/gradient_shapes.h"
#include "dtrain/tasks/shared/memory_plan.h"
#include "dtrain/train/trainer.h"

namespace dtrain {

struct WorkloadOptions {
  int ranks = 1;  // of the job, all on one host
  // Mean tokens of a sentence with its end; 0: the corpus, else 32. For a BERT, of its texts; 0:
  // data.max_length.
  double source_length = 0.0;
  double target_length = 0.0;     // translation only
  double length_deviation = 0.0;  // BERT only: the standard deviation of the texts' tokens
};

struct Workload {
  Device device = {};
  TrainerOptions trainer = {};
  MemoryOptions memory = {};
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  ModelParameters parameters = {};
  GradientShapes gradients = {};
  ModelCosts costs = {};           // of a rank's micro-batch
  double flops_per_token = 0.0;    // forward and backward, without recomputation
  int64_t tokens_per_batch = 0;    // of an update, all ranks
  int64_t texts_per_batch = 0;     // the same, where updates are a number of texts; else 0
  int64_t evaluation_bytes = 0;    // the largest batch of an evaluation, at most
  int64_t position_bytes = 0;      // a table of positions that is no parameter
  std::string token = "token";     // what tokens_per_batch counts: "target token"
  std::string sequences = "";      // "texts of 128.0 tokens"
  std::string micro_batch = "";    // "32 texts of 4096 tokens together"
  std::string planned_batch = "";  // as a run's memory plan names it: "4096 tokens"
  // For JSON: the counts of the micro-batch, and parts of the activations.
  std::vector<std::pair<std::string, int64_t>> micro_batch_counts = {};
  std::vector<std::pair<std::string, int64_t>> activation_parts = {};
  std::vector<std::string> notes = {};  // missing files, and what was assumed instead
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_WORKLOAD_H_
