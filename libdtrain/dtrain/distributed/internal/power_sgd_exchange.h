// power_sgd_exchange.h - sums gradients by PowerSGD: matrices travel as two thin factors.
// SPDX-License-Identifier: Apache-2.0
//
// PowerSGD (Vogels, Karimireddy, Jaggi 2019, algorithms 1 and 2), with M = gradient + error:
//   P = sum over ranks of M Q,  P orthonormal,  Q = sum over ranks of M^T P.
// The sum of the gradients is taken to be P Q^T, and each rank's error becomes M - P Q_own^T. This
// is one step of the power method; Q starts where the last step ended. Errors add up to what the
// sums lack, so nothing is lost, only late.
//
// P and everything that is not compressed travel in a first allreduce of a bucket, Q in a second.
// Sums and errors of a bucket are computed once its factors have arrived and all buckets have left,
// while the last ones still travel.
//
// "Rank" above is a worker of WorkerGrid. If a worker is a host of several ranks, they first reduce
// and scatter a bucket among them. Each compresses its share with the ranks at its place of the
// other hosts, and the worker's ranks gather the sums at the end. Products, errors and the bytes on
// the network are divided by the ranks of a host.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_EXCHANGE_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/internal/compressed_exchange.h"
#include "dtrain/distributed/internal/factor_layout.h"
#include "dtrain/distributed/internal/host_gradients.h"
#include "dtrain/distributed/internal/matrix_compressor.h"
#include "dtrain/distributed/internal/power_sgd_groups.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"
#include "dtrain/distributed/internal/power_sgd_rounds.h"

namespace dtrain::internal {

class PowerSgdExchange final : public CompressedExchange {
 public:
  // All ranks call it. `parameters` of the buckets. `comm` outlives the exchange.
  PowerSgdExchange(const Tensor& flat, const std::vector<BucketRange>& buckets,
                   const std::vector<GradientRange>& parameters, Communicator& comm,
                   const GradientReducerOptions& options);

  void Prepare(int bucket) override;
  void Start(int bucket) override;
  void Poll() override;
  bool HasArrived(int bucket) override;
  void Land(int bucket) override;
  void Settle() override;
  int64_t BytesOf(int bucket) const override;
  int64_t BytesSent() const override { return groups_.BytesSent(); }

  void SetGradientScale(const Tensor& scale) override { gradient_scale_ = scale; }
  void SetGradientTokens(double tokens) override { gradient_tokens_ = tokens; }
  void SetStep(int64_t step) override;
  PowerSgdMemory* memory() override { return rounds_ ? &compressor_.memory() : nullptr; }

 private:
  float ReadUnit();

  std::shared_ptr<HostGradients> gradients_;
  DType wire_type_;
  int64_t start_step_;
  Tensor gradient_scale_;  // absent: 1
  double gradient_tokens_ = 1.0;
  MatrixCompressor compressor_;
  PowerSgdGroups groups_;
  FactorLayout layout_;
  std::unique_ptr<BucketExchange> plain_;  // until compression begins
  std::optional<PowerSgdRounds> rounds_;   // from then on
  int64_t step_ = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_EXCHANGE_H_
