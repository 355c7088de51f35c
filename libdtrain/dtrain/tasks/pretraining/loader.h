// loader.h - packs this rank's share of each batch of masked texts, ahead of use.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(PretrainingLoader loader,
//                       PretrainingLoader::Create(shard, options, cursor));
//   const PretrainingUpdate update = loader.Next();
//   for (const PretrainingBatch& micro : update.micro_batches) ...  // sums of losses
//   ...                                       // divide by the masked tokens of all ranks together
//   cursor = update.next;                     // checkpoints store this
//
// Evaluations use PretrainingExamples of epoch 0 and their EvaluationBatches() instead.
#ifndef DTRAIN_TASKS_PRETRAINING_LOADER_H_
#define DTRAIN_TASKS_PRETRAINING_LOADER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/batch_walk.h"
#include "dtrain/data/batching.h"
#include "dtrain/tasks/pretraining/batch.h"
#include "dtrain/tasks/pretraining/document_shard.h"
#include "dtrain/tasks/pretraining/examples.h"

namespace dtrain {

// The data of one update on this rank.
struct PretrainingUpdate {
  std::vector<PretrainingBatch> micro_batches;  // one for each accumulation step; may be empty
  int64_t global_tokens = 0;  // number of masked tokens on all ranks, as counted by
                              // LossSums::tokens
  int64_t epoch_samples = 0;  // number of examples in this epoch; other epochs have slightly
                              // different numbers
  DataPosition next;          // start of the next update
};

struct PretrainingLoaderOptions {
  PretrainingExampleOptions examples = {};
  BatchOptions batch = {};  // set samples_per_batch for batches of a fixed number of examples
  RankShare share = {};
  int prefetch = 2;  // number of batches packed ahead, at least 1
};

// Runs through epochs endlessly, from `start` on, and makes an epoch's examples when it begins. A
// thread of the loader packs ahead and ends with the loader. The shard must outlive it.
class PretrainingLoader {
 public:
  // Returns DataError if an epoch has fewer examples than there are ranks, or if `start` is beyond
  // its end.
  static StatusOr<PretrainingLoader> Create(const DocumentShard& shard,
                                            const PretrainingLoaderOptions& options,
                                            const DataPosition& start = {});
  // Like above, with the examples of the epoch of `start`, made from this shard with these options.
  static StatusOr<PretrainingLoader> Create(const DocumentShard& shard,
                                            const PretrainingLoaderOptions& options,
                                            const DataPosition& start,
                                            std::unique_ptr<PretrainingExamples> examples);
  PretrainingLoader(PretrainingLoader&&) noexcept;
  PretrainingLoader& operator=(PretrainingLoader&&) noexcept;
  ~PretrainingLoader();

  // Number of examples in the epoch of `start`.
  int64_t epoch_samples() const;

  // Returns the next update's data, and waits until it is packed. Exceptions of the packing thread
  // are rethrown here.
  PretrainingUpdate Next();

 private:
  class Worker;
  explicit PretrainingLoader(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_LOADER_H_
