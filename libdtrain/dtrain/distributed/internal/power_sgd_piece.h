// power_sgd_piece.h - one piece of a bucket on its way through the exchanges of PowerSGD.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_PIECE_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_PIECE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/distributed/internal/factor_layout.h"
#include "dtrain/distributed/internal/matrix_compressor.h"
#include "dtrain/distributed/internal/wire_values.h"

namespace dtrain::internal {

// An exchange in flight. It is over from the beginning if nothing has to travel.
class PendingExchange {
 public:
  void Start(std::unique_ptr<Handle> handle) { handle_ = std::move(handle); }
  bool IsOver() const { return !handle_ || handle_->Test(); }
  void Wait() const {
    if (handle_) handle_->Wait();
  }

 private:
  std::unique_ptr<Handle> handle_;
};

// The functions are called in this order, once per step. `gradients` are the flat gradients in the
// host's memory; the piece of this rank and the matrices in it are this layout's.
class PowerSgdPiece {
 public:
  // layout: outlives the piece. ranks: of the job, by which float16 values are divided.
  PowerSgdPiece(const FactorPiece* layout, DType wire_type, int ranks);

  // If ranks of a host share the work: each receives the sum of its share.
  void StartShare(float* gradients, Communicator& comm);
  const PendingExchange& share() const { return share_; }
  // Computes P, and copies the rest.
  void Encode(int64_t step, float* gradients, MatrixCompressor& compressor);
  void StartFirst(Communicator& comm) { first_exchange_.Start(first_.StartSum(comm)); }
  const PendingExchange& first() const { return first_exchange_; }
  // Takes the sums of P, computes Q and sends it. False if a sum of the first exchange is not
  // finite.
  bool StartSecond(float* gradients, MatrixCompressor& compressor, Communicator& comm);
  const PendingExchange& second() const { return second_exchange_; }
  // Takes the sums of Q and writes the sums of the gradients. False if one of Q is not finite.
  bool WriteSums(float* gradients, MatrixCompressor& compressor);
  // If ranks of a host share the work: gathers the sums of all shares.
  void StartGather(float* gradients, Communicator& comm);
  const PendingExchange& gather() const { return gather_; }
  // The step was good.
  void KeepFactors(MatrixCompressor& compressor);

 private:
  // Calls body(matrix, P^T in the first exchange, offset of its Q^T in the second).
  template <typename Body>
  void ForEachMatrix(const MatrixCompressor& compressor, const Body& body);

  const FactorPiece* layout_;
  WireValues first_;              // P^T of each matrix, then the rest
  WireValues second_;             // Q^T of each matrix: the sum over all ranks
  std::vector<float> own_right_;  // Q^T of each matrix: of this rank
  PendingExchange share_, first_exchange_, second_exchange_, gather_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_PIECE_H_
