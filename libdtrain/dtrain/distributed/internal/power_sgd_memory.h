// power_sgd_memory.h - what PowerSGD carries from step to step, and its way through checkpoints.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_MEMORY_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/distributed/internal/low_rank.h"
#include "dtrain/distributed/internal/worker_grid.h"
#include "dtrain/runs/checkpoint.h"

namespace dtrain::internal {

// A parameter that travels as factors.
struct CompressedMatrix {
  std::string name;
  int64_t begin = 0;  // in the flat gradients
  MatrixSize size;
  int place = 0;             // of the worker's ranks, the one that compresses it
  int64_t error_begin = 0;   // in that rank's PowerSgdMemory::errors
  int64_t factor_begin = 0;  // in its PowerSgdMemory::factors
};

struct PowerSgdMemory {
  int rank = 0;  // of the factors
  WorkerGrid grid;
  std::vector<CompressedMatrix> matrices;  // of all places
  // What the worker's gradients still owe the sum, as gradients of the mean loss over all ranks'
  // tokens; this rank's matrices, one after the other.
  std::vector<float> errors;
  // Q^T [rank, columns] of each of this rank's matrices, where the next step begins; the same on
  // all workers.
  std::vector<float> factors;
};

// Of the matrices of one place.
struct MemorySize {
  int64_t errors = 0;
  int64_t factors = 0;
};
MemorySize SizeAt(const PowerSgdMemory& memory, int place);

// The memories of all ranks by rank, as each has it, on the root; empty elsewhere.
struct GatheredMemory {
  int writers = 0;  // workers that wrote it; 0: none
  int dropped = 0;  // matrices that it has and the run does not compress
  // The file is of a version whose errors were those of sums of losses: they are zero here, since
  // it does not say of how many.
  bool is_of_sums = false;
  std::vector<float> errors;
  std::vector<float> factors;
};

// Collective. The file of a checkpoint; without tensors on the other ranks.
CheckpointFile GatherMemory(const PowerSgdMemory& memory, Communicator& comm);

// On the root: the checkpoint's memory for the ranks of `memory`. As many workers as wrote it get
// their own errors back, others equal parts of their sum, which is all that the updates depend on.
// What the checkpoint does not have (a parameter that was not compressed, factors of another rank)
// is zero and starts anew.
StatusOr<GatheredMemory> ReadMemory(const Checkpoint& checkpoint, const PowerSgdMemory& memory);

// Collective. Each rank gets its part.
void SpreadMemory(const GatheredMemory& gathered, Communicator& comm, PowerSgdMemory& memory);

// Collective: both of these, from the checkpoint folder `path` of the root. Returns what a person
// should know of it, or "".
StatusOr<std::string> RestoreMemory(const std::string& path, Communicator& comm,
                                    PowerSgdMemory& memory);
// Whether the checkpoint folder `path` holds a memory.
bool HasMemory(const std::string& path);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_MEMORY_H_
