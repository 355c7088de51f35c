// worker_grid.h - the workers of PowerSGD: which rank compresses which part of the gradients.
// SPDX-License-Identifier: Apache-2.0
//
// If several hosts have the same number of ranks, more than one, the ranks of a host are one
// worker. They add their gradients first, and each compresses its share of the sum. Otherwise, and
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
  int places = 1;           // number of ranks of a worker
  std::vector<int> worker;  // by rank, in the order in which hosts appear
  std::vector<int> place;   // by rank
};

WorkerGrid FindWorkers(const Communicator& comm);
// Every rank is a worker.
WorkerGrid EachRankAlone(int ranks);

// Elements [begin, end), which follow the previous ones.
struct SharePiece {
  int64_t begin = 0;
  int64_t end = 0;
  bool is_matrix = false;  // one place has all of it
};

// Cuts buckets so that over all of them every place has the same amount to compute.
class ShareCutter {
 public:
  explicit ShareCutter(int places) : load_(static_cast<size_t>(places)) {}
  // Place p takes elements [offsets[p], offsets[p + 1]) of the pieces. [places + 1].
  std::vector<int64_t> Cut(std::span<const SharePiece> pieces);

 private:
  std::vector<double> load_;  // by place, for the buckets so far
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_WORKER_GRID_H_
