// walked_task.h - what training tasks share whose samples are in memory, the same in each epoch.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_WALKED_TASK_H_
#define DTRAIN_TASKS_SHARED_WALKED_TASK_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/tasks/shared/model_task.h"
#include "dtrain/train/micro_batches.h"

namespace dtrain {

// The samples of such a task.
struct WalkedSamples {
  std::string path;                  // of the files, for messages
  const char* name;                  // "sentences", for messages
  std::span<const int32_t> lengths;  // tokens of each sample; lives as long as the task
  BatchOptions batch = {};           // of an update over all ranks
  int64_t micro_batch_tokens = 0;    // a rank's share is cut into micro-batches of at most this
};

template <typename Model, typename Batch, typename Inputs>
class WalkedTask : public ModelTask<Model, Batch, Inputs> {
 public:
  Status Seek(const DataPosition& position) override {
    DT_RETURN_IF_ERROR(
        CheckWalk(samples_.path, samples_.name, Lengths().size(), this->share(), position));
    walk_.emplace(Lengths(), samples_.batch, this->share(), position);
    this->MoveTo(position, Lengths().size());
    return OkStatus();
  }
  StatusOr<int> NextUpdate() override {
    const BatchShare update = walk_->Next();
    std::vector<Batch> micro_batches;
    for (const BatchPart& part : update.parts) {
      micro_batches.push_back(Pack(part.samples));
      micro_batches.back().sequences.set_first_numbers(part.source_numbers);
    }
    int64_t losses = 0;
    for (const uint32_t sample : update.samples) losses += LossesOf(sample);
    return this->Load(std::move(micro_batches), losses, update.next, Lengths().size());
  }
  EpochInfo epoch() const override {
    return EpochOf(this->epoch_samples(), samples_.batch, [this] { return Lengths(); });
  }
  // Updates of one pass over the training data.
  int64_t updates_per_epoch() const { return updates_per_epoch_; }

 protected:
  using ModelTask<Model, Batch, Inputs>::ModelTask;

  // Begins with the first sample. DataError: there are fewer samples than ranks. UsageError:
  // batches that do not fit the samples.
  Status Start(const WalkedSamples& samples) {
    samples_ = samples;
    const auto& lengths = samples.lengths;
    const int32_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
    const int ranks = this->share().num_ranks;
    DT_RETURN_IF_ERROR(
        CheckMicroBatches(samples.batch, samples.micro_batch_tokens, longest, ranks));
    this->set_accumulation(
        MicroBatchesOf(samples.batch, samples.micro_batch_tokens, longest, ranks));
    updates_per_epoch_ = EpochPlan(Lengths(), samples.batch, /*epoch=*/0).num_batches();
    return Seek({});
  }

 private:
  virtual Batch Pack(std::span<const uint32_t> samples) const = 0;
  virtual int64_t LossesOf(uint32_t sample) const = 0;
  SampleLengths Lengths() const { return {.source = samples_.lengths, .added = 0}; }

  WalkedSamples samples_ = {};
  int64_t updates_per_epoch_ = 0;
  std::optional<BatchWalk> walk_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_WALKED_TASK_H_
