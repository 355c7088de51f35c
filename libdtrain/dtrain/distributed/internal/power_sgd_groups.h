// power_sgd_groups.h - the communicators of PowerSGD: one for each kind of exchange.
// SPDX-License-Identifier: Apache-2.0
//
// Exchanges of one kind start in the order of the buckets, on every rank. Those of different kinds
// do not, so each kind has a communicator of its own.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_GROUPS_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_GROUPS_H_

#include <cstdint>
#include <memory>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/groups.h"
#include "dtrain/distributed/internal/worker_grid.h"

namespace dtrain::internal {

class PowerSgdGroups {
 public:
  // All ranks call it. `comm` outlives the groups.
  PowerSgdGroups(Communicator& comm, const WorkerGrid& grid) : comm_(comm) {
    if (grid.places > 1) {
      shares_ = MakeHostGroup(comm);
      gathers_ = MakeHostGroup(comm);
      first_ = MakeCrossGroup(comm);
    }
    second_ = has_shares() ? MakeCrossGroup(comm) : comm.Split(0);
  }

  // True if the ranks of a host are one worker, and each compresses its share of the gradients.
  bool has_shares() const { return shares_ != nullptr; }
  // The ranks of the worker: they divide a bucket into shares, and gather the sums of the shares.
  Communicator& shares() { return *shares_; }
  Communicator& gathers() { return *gathers_; }
  // The ranks with this rank's place in all workers: they add P and the rest, then Q.
  Communicator& first() { return first_ ? *first_ : comm_; }
  Communicator& second() { return *second_; }
  // All ranks.
  Communicator& all() { return comm_; }

  void Poll() {
    if (has_shares()) {
      shares_->Poll();
      gathers_->Poll();
    }
    first().Poll();
    second_->Poll();
  }
  int64_t BytesSent() const {
    int64_t bytes = comm_.bytes_sent() + second_->bytes_sent();
    if (has_shares()) {
      bytes += shares_->bytes_sent() + gathers_->bytes_sent() + first_->bytes_sent();
    }
    return bytes;
  }

 private:
  Communicator& comm_;
  std::unique_ptr<Communicator> shares_, gathers_;  // null if a worker is one rank
  std::unique_ptr<Communicator> first_;             // null if it is comm_
  std::unique_ptr<Communicator> second_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_GROUPS_H_
