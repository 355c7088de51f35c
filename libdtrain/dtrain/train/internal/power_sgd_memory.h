// power_sgd_memory.h - what PowerSGD carries from step to step, and its way through checkpoints.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_INTERNAL_POWER_SGD_MEMORY_H_
#define DTRAIN_TRAIN_INTERNAL_POWER_SGD_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/train/checkpoint.h"
#include "dtrain/train/internal/low_rank.h"

namespace dtrain::internal {

// A parameter that travels as factors.
struct CompressedMatrix {
  std::string name;
  int64_t begin = 0;  // in the flat gradients
  MatrixSize size;
  int64_t error_begin = 0;   // in PowerSgdMemory::errors
  int64_t factor_begin = 0;  // in PowerSgdMemory::factors
};

struct PowerSgdMemory {
  int rank = 0;  // of the factors
  std::vector<CompressedMatrix> matrices;
  // What this rank's gradients still owe the sum, free of the loss scale; one after the other.
  std::vector<float> errors;
  // Q^T [rank, columns] of each matrix, where the next step begins; the same on all ranks.
  std::vector<float> factors;
};

// The memories of all ranks, on the root; empty elsewhere.
struct GatheredMemory {
  int ranks = 0;              // that wrote it; 0: none
  std::vector<float> errors;  // [ranks, errors of one]
  std::vector<float> factors;
};

// Collective. The file of a checkpoint; without tensors on the other ranks.
CheckpointFile GatherMemory(const PowerSgdMemory& memory, Communicator& comm);

// On the root: the checkpoint's memory, laid out as `memory`. What the checkpoint does not have (a
// parameter that was not compressed, factors of another rank) is zero and starts anew.
absl::StatusOr<GatheredMemory> ReadMemory(const Checkpoint& checkpoint,
                                          const PowerSgdMemory& memory);

// Collective. Each rank gets its own memory back; another number of ranks gets equal parts of the
// sum, which is all that the updates depend on.
void SpreadMemory(const GatheredMemory& gathered, Communicator& comm, PowerSgdMemory& memory);

// Collective: both of these, from the checkpoint folder `path` of the root. Returns what a person
// should know of it, or "".
absl::StatusOr<std::string> RestoreMemory(const std::string& path, Communicator& comm,
                                          PowerSgdMemory& memory);
// Whether the checkpoint folder `path` holds a memory.
bool HasMemory(const std::string& path);

}  // namespace dtrain::internal

#endif  // DTRAIN_TRAIN_INTERNAL_POWER_SGD_MEMORY_H_
