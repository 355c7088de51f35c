// power_sgd_exchange.h - matrices that travel as two thin factors; what they lack is remembered.
// SPDX-License-Identifier: Apache-2.0
//
// PowerSGD (Vogels, Karimireddy, Jaggi 2019, algorithms 1 and 2): with M = gradient + error,
//   P = sum over ranks of M Q,  P orthonormal,  Q = sum over ranks of M^T P,
// the sum of the gradients is taken to be P Q^T, and each rank's error M - P Q_own^T. One step of
// the power method; Q starts where the last step ended. Errors add up to what the sum lacks, so
// that nothing is lost, only late.
//
// The paper's gradients are means. Ours are sums of a step's losses times a scale, so errors are
// kept in gradients / (scale * tokens of all ranks): the memory of a large step has no more weight
// in a small one than a step of its own has.
//
// P and everything that is not compressed travel in a first allreduce of a bucket, Q in a second,
// on a communicator of its own: buckets reach it in their order on every rank, while first ones are
// still under way.
//
// "Rank" above is a worker of WorkerGrid. Where a worker is a host of several ranks, a bucket is
// reduced and scattered among them first, each compresses its share with the ranks at its place of
// the other hosts, and the sums are gathered at the end: products, errors and what a network
// carries are divided by the ranks of a host.
//
// Sums and errors of a bucket are computed once its factors have arrived and all buckets have left,
// while the last ones still travel. Whether all of a step's sums are finite is known at its end
// alone, so that errors go to a second memory, which takes the place of the first if they are.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_EXCHANGE_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/internal/bucket_exchange.h"
#include "dtrain/distributed/internal/host_gradients.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"
#include "dtrain/distributed/internal/worker_grid.h"

namespace dtrain::internal {

class PowerSgdExchange final : public BucketExchange {
 public:
  // Collective. parameters: of the buckets. `comm` outlives the exchange.
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
  int64_t BytesSent() const override;

  // [1] float32: what the gradients of a step are multiplied by, a power of two. Read when its
  // first bucket starts.
  void SetGradientScale(const Tensor& scale) { gradient_scale_ = scale; }
  // Of all ranks; between steps.
  void SetGradientTokens(double tokens) { gradient_tokens_ = tokens; }
  // Steps so far, in a run that goes on.
  void SetStep(int64_t step);
  // Absent until matrices are compressed. Between steps.
  PowerSgdMemory* memory() { return plain_ ? nullptr : &memory_; }

 private:
  struct Bucket {
    BucketRange range;
    std::vector<int64_t> share_offsets;        // within the range, by place: [places + 1]
    size_t first_matrix = 0, last_matrix = 0;  // of memory_.matrices, in this rank's share
    std::vector<BucketRange> rest;             // what travels as it is, likewise
    int64_t left_elements = 0, right_elements = 0, rest_elements = 0;
    std::vector<float> first;        // P^T of each matrix, then the rest
    std::vector<float> own, second;  // Q^T of each matrix: of this rank, and the sum
    std::vector<std::byte> first_wire, second_wire;
    // Of the share of this rank, of the two allreduces, of the sums; null where nothing travels.
    std::unique_ptr<Handle> share_handle, first_handle, second_handle, gather_handle;
  };

  void AddBucket(const BucketRange& range, const std::vector<GradientRange>& parameters,
                 ShareCutter& cutter);
  void BeginCompression();
  void ReadUnit();
  // P and the rest of the share.
  void Encode(Bucket& bucket);
  void AddErrors(const CompressedMatrix& matrix);
  void StartFirst();
  void StartSecond();
  // Sums, errors, and the gathering of sums.
  void Finish(Bucket& bucket);
  // As many first allreduces as there are shares, as many second ones as there are first ones done;
  // then finishes a bucket, if one is due.
  void Advance();
  // Of a bucket of the reducer.
  std::span<Bucket> PiecesAt(int index);
  bool IsDone(int index) const;
  // Nothing in float32.
  void Round(const std::vector<float>& values, std::vector<std::byte>& wire) const;
  void Widen(const std::vector<std::byte>& wire, std::vector<float>& values) const;
  std::unique_ptr<Handle> Send(std::vector<float>& values, std::vector<std::byte>& wire,
                               Communicator& comm) const;
  void WriteSums(Bucket& bucket);
  void StartGather(Bucket& bucket);
  // Takes the step's errors and factors over.
  void KeepMemory();
  // For an update that is going to be skipped: the memory stays as it was before.
  void SpoilSums();
  // Calls body(matrix, P^T, offset of its Q^T in the bucket).
  template <typename Body>
  void ForEachMatrix(Bucket& bucket, const Body& body);
  Tensor MatrixView(const CompressedMatrix& matrix) const;

  std::shared_ptr<HostGradients> gradients_;
  Communicator& comm_;
  DType wire_type_;
  PowerSgdOptions options_;
  Tensor gradient_scale_;  // absent: 1
  double gradient_tokens_ = 1.0;
  PowerSgdMemory memory_;
  std::vector<Bucket> buckets_;            // or pieces of one
  std::vector<size_t> ends_;               // of the pieces of each bucket of the reducer
  std::unique_ptr<BucketExchange> plain_;  // until compression begins
  std::vector<float> next_errors_;         // this step's, as memory_.errors
  // Of the worker's ranks, for shares and for sums; null where it is one rank.
  std::unique_ptr<Communicator> host_comm_, gather_comm_;
  // Of first allreduces, null where comm_ is; of second ones.
  std::unique_ptr<Communicator> first_comm_, second_comm_;
  Stream host_stream_;  // of products in the host's memory
  int64_t step_ = 0;
  size_t started_ = 0, next_first_ = 0, next_second_ = 0, finished_ = 0;  // buckets of this step
  float unit_ = 1.0f;   // this step's gradients are so many times those of its mean loss
  bool finite_ = true;  // this step's sums so far, the same on all ranks
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_EXCHANGE_H_
