// loader.h - packs this rank's share of each global batch, one batch ahead of the training loop.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(BatchLoader loader, BatchLoader::Create(shard, options, state));
//   for (;;) {
//     const LoadedBatch batch = loader.Next();
//     for (const PairBatch& micro : batch.micro_batches) ...  // sums of losses, and gradients
//     ...                                  // divide by the target tokens of all ranks together
//     state = batch.next;                  // what a checkpoint keeps
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

// A packed batch of sentence pairs: sequence i of source and target is row sample_indices[i] of the
// shard. May hold no pair at all, in the tail of an epoch.
struct PairBatch {
  std::vector<int32_t> source_ids;  // [source tokens]: pieces and end of sentence
  Sequences source;
  std::vector<int32_t> decoder_ids;  // [target tokens]: start, then pieces
  std::vector<int32_t> target_ids;   // [target tokens]: pieces and end of sentence
  Sequences target;
  std::vector<int64_t> sample_indices;

  int64_t size() const { return static_cast<int64_t>(sample_indices.size()); }
};

struct SpecialIds {
  int32_t eos_id = 0;
  int32_t start_id = 0;  // first input of the decoder
};

PairBatch PackPairs(const TokenShard& shard, std::span<const uint32_t> samples,
                    const SpecialIds& ids);

// One update's data on this rank.
struct LoadedBatch {
  std::vector<PairBatch> micro_batches;  // one for each accumulation step, perhaps empty
  int64_t global_tokens = 0;             // whose losses all ranks sum, as LossSums::tokens counts
  DataPosition next;                     // where the next update starts
};

struct LoaderOptions {
  BatchOptions batch;
  SpecialIds ids;
  int rank = 0;
  int num_ranks = 1;
  int accumulation = 1;  // micro-batches an update and rank
  int prefetch = 2;      // batches packed ahead, at least 1
};

// Runs over the epochs without end, from `start` on. The shard outlives the loader. One thread of
// its own packs ahead; it ends with the loader.
class BatchLoader {
 public:
  // DataError when the shard has fewer pairs than there are ranks, or `start` lies beyond its end.
  static StatusOr<BatchLoader> Create(const TokenShard& shard, const LoaderOptions& options,
                                      const DataPosition& start = {});
  BatchLoader(BatchLoader&&) noexcept;
  BatchLoader& operator=(BatchLoader&&) noexcept;
  ~BatchLoader();

  // The next update's data; waits for it. An exception of the packing thread is rethrown here.
  LoadedBatch Next();

 private:
  class Worker;
  explicit BatchLoader(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_LOADER_H_
