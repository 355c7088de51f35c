// batch_walk.h - one rank's share of update after update, through the epochs, from any position.
// SPDX-License-Identifier: Apache-2.0
//
// What every loader does before it packs anything: it only knows lengths.
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

// Which part of each global batch is ours.
struct RankShare {
  int rank = 0;
  int num_ranks = 1;
  int accumulation = 1;  // micro-batches an update and rank
};

// A micro-batch of ours, perhaps empty.
struct BatchPart {
  std::vector<uint32_t> samples;
  // Of each sample's first tokens, among the tokens that the samples of all ranks have in their
  // order: Sequences::first_numbers().
  std::vector<int32_t> source_numbers = {};
  std::vector<int32_t> target_numbers = {};  // none of single sequences
};

// One update: which samples, as rows of the lengths.
struct BatchShare {
  std::span<const uint32_t> samples;  // of all ranks; valid until the next call
  std::vector<BatchPart> parts;       // one for each micro-batch
  DataPosition next;                  // where the next update starts
};

class BatchWalk {
 public:
  // `lengths` is not empty; `start` lies within it.
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

// Updates of a walk from `start` to the end of so many epochs. Where batches count samples that
// takes no time, else about that of shuffling all of those epochs.
int64_t CountUpdates(const SampleLengths& lengths, const BatchOptions& options,
                     const DataPosition& start, int64_t epochs);

// DataError when there are fewer samples than ranks, or `start` lies beyond them. `path` and
// `samples_name` ("sentence pairs") are for the message.
Status CheckWalk(std::string_view path, std::string_view samples_name, int64_t num_samples,
                 const RankShare& share, const DataPosition& start);

}  // namespace dtrain

#endif  // DTRAIN_DATA_BATCH_WALK_H_
