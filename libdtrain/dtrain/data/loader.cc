// loader.cc - the packing thread and its short queue.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/loader.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"

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

class BatchLoader::Worker {
 public:
  Worker(const TokenShard& shard, const LoaderOptions& options, const DataCursor& start)
      : shard_(shard),
        lengths_{shard.source_lengths(), shard.target_lengths()},
        options_(options),
        cursor_(start),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  LoadedBatch Next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || failure_; });
    if (ready_.empty()) std::rethrow_exception(failure_);
    LoadedBatch batch = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return batch;
  }

 private:
  void Run(const std::stop_token& stop) {
    try {
      while (!stop.stop_requested()) {
        LoadedBatch batch = Load();
        std::unique_lock lock(mutex_);
        const auto has_room = [&] { return static_cast<int>(ready_.size()) < options_.prefetch; };
        if (!changed_.wait(lock, stop, has_room)) return;
        ready_.push_back(std::move(batch));
        lock.unlock();
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  LoadedBatch Load() {
    if (!plan_ || plan_epoch_ != cursor_.epoch) {
      plan_.emplace(lengths_, options_.batch, cursor_.epoch);
      plan_epoch_ = cursor_.epoch;
    }
    const std::span<const uint32_t> samples = plan_->BatchFrom(cursor_.sample);
    LoadedBatch batch;
    batch.cursor = cursor_;
    batch.samples = static_cast<int64_t>(samples.size());
    for (const uint32_t sample : samples) {
      batch.source_tokens += shard_.source_length(sample) + 1;
      batch.target_tokens += shard_.target_length(sample) + 1;
    }
    // Part p is micro-batch p / ranks of rank p % ranks, so a small tail is spread over the ranks.
    const auto parts = SplitByTokens(samples, lengths_, options_.num_ranks * options_.accumulation);
    for (int micro = 0; micro < options_.accumulation; ++micro) {
      const int part = micro * options_.num_ranks + options_.rank;
      batch.micro_batches.push_back(
          PackPairs(shard_, parts[static_cast<size_t>(part)], options_.ids));
    }
    cursor_.sample += batch.samples;
    batch.ends_epoch = cursor_.sample == plan_->num_samples();
    if (batch.ends_epoch) cursor_ = {.epoch = cursor_.epoch + 1};
    batch.next = cursor_;
    return batch;
  }

  const TokenShard& shard_;
  const PairLengths lengths_;
  const LoaderOptions options_;
  DataCursor cursor_;  // of the packing thread
  std::optional<EpochPlan> plan_;
  int64_t plan_epoch_ = -1;

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  std::deque<LoadedBatch> ready_;
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it starts when all else is there and ends before it goes
};

BatchLoader::BatchLoader(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
BatchLoader::BatchLoader(BatchLoader&&) noexcept = default;
BatchLoader& BatchLoader::operator=(BatchLoader&&) noexcept = default;
BatchLoader::~BatchLoader() = default;

absl::StatusOr<BatchLoader> BatchLoader::Create(const TokenShard& shard,
                                                const LoaderOptions& options,
                                                const DataCursor& start) {
  DT_CHECK_GT(options.num_ranks, 0);
  DT_CHECK(options.rank >= 0 && options.rank < options.num_ranks) << options.rank;
  DT_CHECK_GT(options.accumulation, 0);
  DT_CHECK_GT(options.prefetch, 0);
  if (shard.size() < options.num_ranks) {
    return DataError(absl::StrFormat(
        "%s: %d sentence pairs for %d ranks; start fewer ranks or prepare more data", shard.path(),
        shard.size(), options.num_ranks));
  }
  if (start.epoch < 0 || start.sample < 0 || start.sample >= shard.size()) {
    return DataError(absl::StrFormat(
        "%s: cannot continue at sample %d of epoch %d, there are %d pairs; was the data prepared "
        "anew since the checkpoint?",
        shard.path(), start.sample, start.epoch, shard.size()));
  }
  return BatchLoader(std::make_unique<Worker>(shard, options, start));
}

LoadedBatch BatchLoader::Next() { return worker_->Next(); }

}  // namespace dtrain
