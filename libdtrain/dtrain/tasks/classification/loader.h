// loader.h - packs this rank's share of each global batch of texts, ahead of use.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(ClassificationLoader loader,
//                       ClassificationLoader::Create(shard, options, cursor));
//   const ClassificationUpdate update = loader.Next();
//   for (const ClassificationBatch& micro : update.micro_batches) ...  // sums of losses
//   ...                                       // divide by the rows of all ranks together
//   cursor = update.next;                     // what a checkpoint keeps
//
// An evaluation takes EvaluationBatches(shard.sample_lengths(), ...) and PackExamples() instead.
#ifndef DTRAIN_TASKS_CLASSIFICATION_LOADER_H_
#define DTRAIN_TASKS_CLASSIFICATION_LOADER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/batch_walk.h"
#include "dtrain/data/batching.h"
#include "dtrain/tasks/classification/batch.h"
#include "dtrain/tasks/classification/shard.h"

namespace dtrain {

// One update's data on this rank.
struct ClassificationUpdate {
  std::vector<ClassificationBatch> micro_batches;  // one for each accumulation step, perhaps empty
  int64_t global_tokens = 0;  // texts whose losses all ranks sum, as LossSums::tokens counts
  DataPosition next;          // where the next update starts
};

struct ClassificationLoaderOptions {
  BatchOptions batch = {};  // samples_per_batch for batches of so many texts
  RankShare share = {};
  int prefetch = 2;  // batches packed ahead, at least 1
};

// Runs over the epochs without end, from `start` on. The shard outlives the loader. One thread of
// its own packs ahead; it ends with the loader.
class ClassificationLoader {
 public:
  // DataError when the shard has fewer rows than there are ranks, or `start` lies beyond its end.
  static StatusOr<ClassificationLoader> Create(const ClassificationShard& shard,
                                               const ClassificationLoaderOptions& options,
                                               const DataPosition& start = {});
  ClassificationLoader(ClassificationLoader&&) noexcept;
  ClassificationLoader& operator=(ClassificationLoader&&) noexcept;
  ~ClassificationLoader();

  // The next update's data; waits for it. An exception of the packing thread is rethrown here.
  ClassificationUpdate Next();

 private:
  class Worker;
  explicit ClassificationLoader(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_LOADER_H_
