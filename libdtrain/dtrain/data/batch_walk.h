// batch_walk.h - yields one rank's share of update after update, from any position in the data.
// SPDX-License-Identifier: Apache-2.0
//
// All loaders use this walk before they pack batches. It only needs the samples' lengths.
//
//   BatchWalk walk(shard.sample_lengths(), options, {.rank = rank, .num_ranks = size}, position);
//   const BatchShare share = walk.Next();
#ifndef DTRAIN_DATA_BATCH_WALK_H_
#define DTRAIN_DATA_BATCH_WALK_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/batching.h"
#include "dtrain/data/data_position.h"

namespace dtrain {

// Identifies this rank's part of each global batch.
struct RankShare {
  int rank = 0;
  int num_ranks = 1;
  int accumulation = 1;  // micro-batches per update and rank
};

// One of this rank's micro-batches; may be empty.
struct BatchPart {
  std::vector<uint32_t> samples;
  // The number of each sample's first token, counting the tokens of all ranks' samples in order.
  // See Sequences::first_numbers().
  std::vector<int32_t> source_numbers = {};
  std::vector<int32_t> target_numbers = {};  // empty for samples of single sequences
};

// The samples of one update, as indices into the lengths.
struct BatchShare {
  std::span<const uint32_t> samples;  // of all ranks; valid until the next call
  std::vector<BatchPart> parts;       // this rank's samples, one part for each micro-batch
  DataPosition next;                  // start of the next update
};

class BatchWalk {
 public:
  // `lengths` must not be empty, and `start` must lie within the data.
  BatchWalk(const SampleLengths& lengths, const BatchOptions& options, const RankShare& share,
            const DataPosition& start);

  BatchShare Next();

 private:
  SampleLengths lengths_;
  BatchOptions options_;
  RankShare share_;
  DataPosition cursor_;
  std::optional<EpochPlan> plan_;
  int64_t plan_epoch_ = -1;
};

// Counts the updates from `start` to the end of `epochs` epochs. If batches are limited by samples,
// this takes no time; otherwise it shuffles all of these epochs.
int64_t CountUpdates(const SampleLengths& lengths, const BatchOptions& options,
                     const DataPosition& start, int64_t epochs);

// Returns DataError if there are fewer samples than ranks, or if `start` is beyond the end of the
// data. `path` and `samples_name` (for example "sentence pairs") are used in the message.
Status CheckWalk(std::string_view path, std::string_view samples_name, int64_t num_samples,
                 const RankShare& share, const DataPosition& start);

}  // namespace dtrain

#endif  // DTRAIN_DATA_BATCH_WALK_H_
