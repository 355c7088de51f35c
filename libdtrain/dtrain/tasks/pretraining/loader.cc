// loader.cc - packs the batches that the walk over an epoch's examples selects.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/loader.h"

#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/data/internal/prefetcher.h"

namespace dtrain {

class PretrainingLoader::Worker {
 public:
  // `examples` are those of the epoch of `start`.
  Worker(const DocumentShard& shard, const PretrainingLoaderOptions& options,
         const DataPosition& start, std::unique_ptr<PretrainingExamples> examples)
      : shard_(shard),
        options_(options),
        epoch_samples_(examples->size()),
        examples_(std::move(examples)),
        next_(start) {
    Walk(start);
    ahead_ = std::make_unique<internal::Prefetcher<PretrainingUpdate>>([this] { return Load(); },
                                                                       options.prefetch);
  }

  PretrainingUpdate Next() { return ahead_->Next(); }
  int64_t epoch_samples() const { return epoch_samples_; }

 private:
  void Walk(const DataPosition& start) {
    walk_ = std::make_unique<BatchWalk>(examples_->sample_lengths(), options_.batch, options_.share,
                                        start);
  }

  PretrainingUpdate Load() {
    if (begins_epoch_) {
      walk_ = nullptr;  // it refers to the lengths of the examples
      examples_ = nullptr;
      examples_ = std::make_unique<PretrainingExamples>(shard_, options_.examples, next_.epoch);
      Walk(next_);
    }
    const BatchShare share = walk_->Next();
    PretrainingUpdate update{.micro_batches = {},
                             .global_tokens = examples_->Masked(share.samples),
                             .epoch_samples = examples_->size(),
                             .next = share.next};
    const float next_weight = examples_->NextWeight(share.samples);
    for (const BatchPart& part : share.parts) {
      update.micro_batches.push_back(examples_->Pack(part.samples, next_weight));
      update.micro_batches.back().sequences.set_first_numbers(part.source_numbers);
    }
    begins_epoch_ = share.next.epoch != next_.epoch;
    next_ = share.next;
    return update;
  }

  const DocumentShard& shard_;
  const PretrainingLoaderOptions options_;
  const int64_t epoch_samples_;
  // Used by the packing thread only.
  std::unique_ptr<PretrainingExamples> examples_;
  std::unique_ptr<BatchWalk> walk_;
  DataPosition next_;
  bool begins_epoch_ = false;
  // The last member, so that its thread ends before the others are destroyed.
  std::unique_ptr<internal::Prefetcher<PretrainingUpdate>> ahead_;
};

PretrainingLoader::PretrainingLoader(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
PretrainingLoader::PretrainingLoader(PretrainingLoader&&) noexcept = default;
PretrainingLoader& PretrainingLoader::operator=(PretrainingLoader&&) noexcept = default;
PretrainingLoader::~PretrainingLoader() = default;

StatusOr<PretrainingLoader> PretrainingLoader::Create(const DocumentShard& shard,
                                                      const PretrainingLoaderOptions& options,
                                                      const DataPosition& start) {
  return Create(shard, options, start,
                std::make_unique<PretrainingExamples>(shard, options.examples, start.epoch));
}

StatusOr<PretrainingLoader> PretrainingLoader::Create(
    const DocumentShard& shard, const PretrainingLoaderOptions& options, const DataPosition& start,
    std::unique_ptr<PretrainingExamples> examples) {
  DT_CHECK_GT(options.prefetch, 0);
  DT_RETURN_IF_ERROR(CheckWalk(shard.path(), "examples", examples->size(), options.share, start));
  return PretrainingLoader(std::make_unique<Worker>(shard, options, start, std::move(examples)));
}

int64_t PretrainingLoader::epoch_samples() const { return worker_->epoch_samples(); }

PretrainingUpdate PretrainingLoader::Next() { return worker_->Next(); }

}  // namespace dtrain
