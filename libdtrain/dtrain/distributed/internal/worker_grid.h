// worker_grid.h - hosts as PowerSGD's workers: who compresses which part of a host's gradients.
// SPDX-License-Identifier: Apache-2.0
//
// Where several hosts have the same number of ranks, more than one, the ranks of a host are one
// worker: they add their gradients first, and each compresses its share of the sum. Elsewhere, and
// with AllReduceAlgorithm::kFlat, every rank is a worker by itself.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_WORKER_GRID_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_WORKER_GRID_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/comm/communicator.h"

namespace dtrain::internal {

struct WorkerGrid {
  int workers = 1;
  int places = 1;           // ranks of a worker
  std::vector<int> worker;  // by rank, in the order in which hosts appear
  std::vector<int> place;   // by rank
};

WorkerGrid FindWorkers(const Communicator& comm);

// Elements [begin, end) that follow the ones before.
struct SharePiece {
  int64_t begin = 0;
  int64_t end = 0;
  bool is_matrix = false;  // goes to one place, whole
};

// Cuts buckets so that all places have as much to compute over all of them.
class ShareCutter {
 public:
  explicit ShareCutter(int places) : load_(static_cast<size_t>(places)) {}
  // Place p takes elements [offsets[p], offsets[p + 1]) of the pieces. [places + 1].
  std::vector<int64_t> Cut(std::span<const SharePiece> pieces);

 private:
  std::vector<double> load_;  // by place, of the buckets so far
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_WORKER_GRID_H_
