// loader.cc - packs the batches that the walk selects, on a separate thread.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/loader.h"

#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/data/internal/prefetcher.h"

namespace dtrain {

class ClassificationLoader::Worker {
 public:
  Worker(const ClassificationShard& shard, const ClassificationLoaderOptions& options,
         const DataPosition& start)
      : shard_(shard),
        walk_(shard.sample_lengths(), options.batch, options.share, start),
        ahead_([this] { return Load(); }, options.prefetch) {}

  ClassificationUpdate Next() { return ahead_.Next(); }

 private:
  ClassificationUpdate Load() {
    const BatchShare share = walk_.Next();
    ClassificationUpdate update{.micro_batches = {},
                                .global_tokens = static_cast<int64_t>(share.samples.size()),
                                .next = share.next};
    for (const BatchPart& part : share.parts) {
      update.micro_batches.push_back(PackExamples(shard_, part.samples));
      update.micro_batches.back().sequences.set_first_numbers(part.source_numbers);
    }
    return update;
  }

  const ClassificationShard& shard_;
  BatchWalk walk_;  // used by the packing thread only
  internal::Prefetcher<ClassificationUpdate> ahead_;
};

ClassificationLoader::ClassificationLoader(std::unique_ptr<Worker> worker)
    : worker_(std::move(worker)) {}
ClassificationLoader::ClassificationLoader(ClassificationLoader&&) noexcept = default;
ClassificationLoader& ClassificationLoader::operator=(ClassificationLoader&&) noexcept = default;
ClassificationLoader::~ClassificationLoader() = default;

StatusOr<ClassificationLoader> ClassificationLoader::Create(
    const ClassificationShard& shard, const ClassificationLoaderOptions& options,
    const DataPosition& start) {
  DT_CHECK_GT(options.prefetch, 0);
  DT_RETURN_IF_ERROR(CheckWalk(shard.path(), "texts", shard.size(), options.share, start));
  return ClassificationLoader(std::make_unique<Worker>(shard, options, start));
}

ClassificationUpdate ClassificationLoader::Next() { return worker_->Next(); }

}  // namespace dtrain
