// loader.h - packs this rank's share of each global batch of sentence pairs, ahead of use.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(BatchLoader loader, BatchLoader::Create(shard, options, state));
//   for (;;) {
//     const LoadedBatch batch = loader.Next();
//     for (const PairBatch& micro : batch.micro_batches) ...  // sums of losses, and gradients
//     ...                                  // divide by the target tokens of all ranks together
//     state = batch.next;                  // checkpoints store this
//   }
#ifndef DTRAIN_TASKS_TRANSLATION_LOADER_H_
#define DTRAIN_TASKS_TRANSLATION_LOADER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/batch_walk.h"
#include "dtrain/data/batching.h"
#include "dtrain/device/sequences.h"
#include "dtrain/tasks/translation/token_shard.h"

namespace dtrain {

// A packed batch of sentence pairs. Sequence i of source and target is row sample_indices[i] of the
// shard. At the end of an epoch it may be empty.
struct PairBatch {
  std::vector<int32_t> source_ids;  // [source tokens]: pieces, then end of sentence
  Sequences source;
  std::vector<int32_t> decoder_ids;  // [target tokens]: start symbol, then pieces
  std::vector<int32_t> target_ids;   // [target tokens]: pieces, then end of sentence
  Sequences target;
  std::vector<int64_t> sample_indices;

  int64_t size() const { return static_cast<int64_t>(sample_indices.size()); }
};

struct SpecialIds {
  int32_t eos_id = 0;
  int32_t start_id = 0;  // the decoder's first input
};

PairBatch PackPairs(const TokenShard& shard, std::span<const uint32_t> samples,
                    const SpecialIds& ids);

// The lengths of a shard's pairs, and the sources that its epochs mix. They point into the shard.
SampleLengths LengthsOf(const TokenShard& shard);

// The data of one update on this rank.
struct LoadedBatch {
  std::vector<PairBatch> micro_batches;  // one for each accumulation step; may be empty
  int64_t global_tokens = 0;             // number of target tokens on all ranks, as counted by
                                         // LossSums::tokens
  DataPosition next;                     // start of the next update
};

struct LoaderOptions {
  BatchOptions batch;
  SpecialIds ids;
  int rank = 0;
  int num_ranks = 1;
  int accumulation = 1;  // micro-batches per update and rank
  int prefetch = 2;      // number of batches packed ahead, at least 1
};

// Runs through epochs endlessly, from `start` on. A thread of the loader packs ahead and ends with
// the loader. The shard must outlive it.
class BatchLoader {
 public:
  // Returns DataError if the shard has fewer pairs than there are ranks, or if `start` is beyond
  // its end.
  static StatusOr<BatchLoader> Create(const TokenShard& shard, const LoaderOptions& options,
                                      const DataPosition& start = {});
  BatchLoader(BatchLoader&&) noexcept;
  BatchLoader& operator=(BatchLoader&&) noexcept;
  ~BatchLoader();

  // Returns the next update's data, and waits until it is packed. Exceptions of the packing thread
  // are rethrown here.
  LoadedBatch Next();

 private:
  class Worker;
  explicit BatchLoader(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_LOADER_H_
