// loader.h - packs this rank's share of each batch of masked texts, ahead of use.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(PretrainingLoader loader,
//                       PretrainingLoader::Create(shard, options, cursor));
//   const PretrainingUpdate update = loader.Next();
//   for (const PretrainingBatch& micro : update.micro_batches) ...  // sums of losses
//   ...                                       // divide by the masked tokens of all ranks together
//   cursor = update.next;                     // what a checkpoint keeps
//
// An evaluation makes PretrainingExamples of epoch 0 and takes EvaluationBatches() of them.
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

// One update's data on this rank.
struct PretrainingUpdate {
  std::vector<PretrainingBatch> micro_batches;  // one for each accumulation step, perhaps empty
  int64_t global_tokens = 0;  // masked ones whose losses all ranks sum, as LossSums::tokens counts
  int64_t epoch_samples = 0;  // examples of this epoch: another has a few more or less
  DataPosition next;          // where the next update starts
};

struct PretrainingLoaderOptions {
  PretrainingExampleOptions examples = {};
  BatchOptions batch = {};  // samples_per_batch for batches of so many examples
  RankShare share = {};
  int prefetch = 2;  // batches packed ahead, at least 1
};

// Runs over the epochs without end, from `start` on, and makes an epoch's examples when it begins.
// The shard outlives the loader. One thread of its own packs ahead; it ends with the loader.
class PretrainingLoader {
 public:
  // DataError when an epoch has fewer examples than there are ranks, or `start` lies beyond its
  // end.
  static StatusOr<PretrainingLoader> Create(const DocumentShard& shard,
                                            const PretrainingLoaderOptions& options,
                                            const DataPosition& start = {});
  // The same with the examples of that epoch made already, of this shard and these options.
  static StatusOr<PretrainingLoader> Create(const DocumentShard& shard,
                                            const PretrainingLoaderOptions& options,
                                            const DataPosition& start,
                                            std::unique_ptr<PretrainingExamples> examples);
  PretrainingLoader(PretrainingLoader&&) noexcept;
  PretrainingLoader& operator=(PretrainingLoader&&) noexcept;
  ~PretrainingLoader();

  // Examples of the epoch that `start` lies in.
  int64_t epoch_samples() const;

  // The next update's data; waits for it. An exception of the packing thread is rethrown here.
  PretrainingUpdate Next();

 private:
  class Worker;
  explicit PretrainingLoader(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_LOADER_H_
