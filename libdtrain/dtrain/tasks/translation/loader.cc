// loader.cc - packs the batches that the walk selects, on a separate thread.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/loader.h"

#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/data/internal/prefetcher.h"

namespace dtrain {

PairBatch PackPairs(const TokenShard& shard, std::span<const uint32_t> samples,
                    const SpecialIds& ids) {
  PairBatch batch;
  std::vector<int32_t> source_offsets = {0};
  std::vector<int32_t> target_offsets = {0};
  for (const uint32_t sample : samples) {
    shard.AppendSource(sample, batch.source_ids);
    batch.source_ids.push_back(ids.eos_id);
    source_offsets.push_back(static_cast<int32_t>(batch.source_ids.size()));

    batch.decoder_ids.push_back(ids.start_id);
    shard.AppendTarget(sample, batch.decoder_ids);
    shard.AppendTarget(sample, batch.target_ids);
    batch.target_ids.push_back(ids.eos_id);
    target_offsets.push_back(static_cast<int32_t>(batch.target_ids.size()));
    batch.sample_indices.push_back(sample);
  }
  batch.source = Sequences(std::move(source_offsets));
  batch.target = Sequences(std::move(target_offsets));
  return batch;
}

SampleLengths LengthsOf(const TokenShard& shard) {
  return {.source = shard.source_lengths(),
          .target = shard.target_lengths(),
          .sources = shard.sources()};
}

class BatchLoader::Worker {
 public:
  Worker(const TokenShard& shard, const LoaderOptions& options, const DataPosition& start)
      : shard_(shard),
        ids_(options.ids),
        walk_(LengthsOf(shard), options.batch, ShareOf(options), start),
        ahead_([this] { return Load(); }, options.prefetch) {}

  static RankShare ShareOf(const LoaderOptions& o) { return {o.rank, o.num_ranks, o.accumulation}; }

  LoadedBatch Next() { return ahead_.Next(); }

 private:
  LoadedBatch Load() {
    const BatchShare share = walk_.Next();
    LoadedBatch batch{.micro_batches = {}, .next = share.next};
    for (const uint32_t sample : share.samples) {
      batch.global_tokens += shard_.target_length(sample) + 1;
    }
    for (const BatchPart& part : share.parts) {
      PairBatch& micro = batch.micro_batches.emplace_back(PackPairs(shard_, part.samples, ids_));
      micro.source.set_first_numbers(part.source_numbers);
      micro.target.set_first_numbers(part.target_numbers);
    }
    return batch;
  }

  const TokenShard& shard_;
  const SpecialIds ids_;
  BatchWalk walk_;  // used by the packing thread only
  internal::Prefetcher<LoadedBatch> ahead_;
};

BatchLoader::BatchLoader(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
BatchLoader::BatchLoader(BatchLoader&&) noexcept = default;
BatchLoader& BatchLoader::operator=(BatchLoader&&) noexcept = default;
BatchLoader::~BatchLoader() = default;

StatusOr<BatchLoader> BatchLoader::Create(const TokenShard& shard, const LoaderOptions& options,
                                          const DataPosition& start) {
  DT_CHECK_GT(options.prefetch, 0);
  DT_RETURN_IF_ERROR(
      CheckWalk(shard.path(), "sentence pairs", shard.size(), Worker::ShareOf(options), start));
  return BatchLoader(std::make_unique<Worker>(shard, options, start));
}

LoadedBatch BatchLoader::Next() { return worker_->Next(); }

}  // namespace dtrain
