// loader.h - packs this rank's share of each global batch of texts, ahead of use.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(ClassificationLoader loader,
//                       ClassificationLoader::Create(shard, options, cursor));
//   const ClassificationUpdate update = loader.Next();
//   for (const ClassificationBatch& micro : update.micro_batches) ...  // sums of losses
//   ...                                       // divide by the rows of all ranks together
//   cursor = update.next;                     // checkpoints store this
//
// Evaluations use EvaluationBatches(shard.sample_lengths(), ...) and PackExamples() instead.
#ifndef DTRAIN_TASKS_CLASSIFICATION_LOADER_H_
#define DTRAIN_TASKS_CLASSIFICATION_LOADER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/batch_walk.h"
#include "dtrain/data/batching.h"
#include "dtrain/tasks/classification/batch.h"
#include "dtrain/tasks/classification/classification_shard.h"

namespace dtrain {

// The data of one update on this rank.
struct ClassificationUpdate {
  std::vector<ClassificationBatch> micro_batches;  // one for each accumulation step; may be empty
  int64_t global_tokens = 0;  // number of texts on all ranks, as counted by LossSums::tokens
  DataPosition next;          // start of the next update
};

struct ClassificationLoaderOptions {
  BatchOptions batch = {};  // set samples_per_batch for batches of a fixed number of texts
  RankShare share = {};
  int prefetch = 2;  // number of batches packed ahead, at least 1
};

// Runs through epochs endlessly, from `start` on. A thread of the loader packs ahead and ends with
// the loader. The shard must outlive it.
class ClassificationLoader {
 public:
  // Returns DataError if the shard has fewer rows than there are ranks, or if `start` is beyond its
  // end.
  static StatusOr<ClassificationLoader> Create(const ClassificationShard& shard,
                                               const ClassificationLoaderOptions& options,
                                               const DataPosition& start = {});
  ClassificationLoader(ClassificationLoader&&) noexcept;
  ClassificationLoader& operator=(ClassificationLoader&&) noexcept;
  ~ClassificationLoader();

  // Returns the next update's data, and waits until it is packed. Exceptions of the packing thread
  // are rethrown here.
  ClassificationUpdate Next();

 private:
  class Worker;
  explicit ClassificationLoader(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_LOADER_H_
