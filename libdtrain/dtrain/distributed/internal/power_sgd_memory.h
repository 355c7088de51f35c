// power_sgd_memory.h - what PowerSGD keeps from step to step, and how checkpoints store it.
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

namespace dtrain {
class GradientReducer;
}

namespace dtrain::internal {

// A parameter that travels as factors.
struct CompressedMatrix {
  std::string name;
  int64_t begin = 0;  // in the flat gradients
  MatrixSize size;
  int place = 0;             // the place in its worker of the rank that compresses it
  int64_t error_begin = 0;   // in that rank's PowerSgdMemory::errors
  int64_t factor_begin = 0;  // in its PowerSgdMemory::factors
};

struct PowerSgdMemory {
  int rank = 0;  // of the factors
  WorkerGrid grid;
  std::vector<CompressedMatrix> matrices;  // of all places
  // The part of this worker's gradients that the sums still lack, for this rank's matrices, one
  // after another, in units of the gradients of the mean loss over all ranks' tokens.
  std::vector<float> errors;
  // Q^T [rank, columns] of each of this rank's matrices, with which the next step begins. The same
  // on all workers.
  std::vector<float> factors;
};

// The state that PowerSGD carries from step to step, for use between steps. Null with one rank, and
// while nothing is compressed. A change takes effect with PutPowerSgdMemory().
PowerSgdMemory* PowerSgdMemoryOf(GradientReducer& reducer);
void PutPowerSgdMemory(GradientReducer& reducer);

// The root warns if `memory` has no matrices.
void WarnIfNothingShrinks(const PowerSgdMemory& memory, const Communicator& comm);

// The memory of the matrices of one place, in floats.
struct MemorySize {
  int64_t errors = 0;
  int64_t factors = 0;
};
MemorySize SizeAt(const PowerSgdMemory& memory, int place);

// On the root: the memories of all ranks, by rank. Empty on the other ranks.
struct GatheredMemory {
  int writers = 0;  // number of workers that wrote it; 0 if there is no memory
  int dropped = 0;  // number of its matrices that the run does not compress
  // The file has an old version, with errors in units of sums of losses. It does not say of how
  // many losses, so these errors are zero here.
  bool is_of_sums = false;
  std::vector<float> errors;
  std::vector<float> factors;
};

// Makes the file of a checkpoint; it has tensors on the root only. All ranks call it.
CheckpointFile GatherMemory(const PowerSgdMemory& memory, Communicator& comm);

// For the root: reads the checkpoint's memory for the ranks of `memory`. The same number of workers
// as wrote it get their own errors back. Any other number gets equal parts of the sum of the
// errors, since the updates depend on the sum alone. Entries that the checkpoint lacks (parameters
// that were not compressed, factors of another rank) are zero.
StatusOr<GatheredMemory> ReadMemory(const Checkpoint& checkpoint, const PowerSgdMemory& memory);

// Gives each rank its part. All ranks call it.
void SpreadMemory(const GatheredMemory& gathered, Communicator& comm, PowerSgdMemory& memory);

// Does both, from the checkpoint folder `path` of the root. Returns a message for the user, or "".
// All ranks call it.
StatusOr<std::string> RestoreMemory(const std::string& path, Communicator& comm,
                                    PowerSgdMemory& memory);
// True if the checkpoint folder `path` holds a memory.
bool HasMemory(const std::string& path);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_MEMORY_H_
