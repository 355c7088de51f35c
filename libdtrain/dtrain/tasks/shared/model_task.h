// model_task.h - what training tasks share whose updates are packed micro-batches for one model.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_MODEL_TASK_H_
#define DTRAIN_TASKS_SHARED_MODEL_TASK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/data/batch_walk.h"
#include "dtrain/device/device.h"
#include "dtrain/device/sequences.h"
#include "dtrain/models/bert_encoder.h"
#include "dtrain/tokenizers/text_tokenizer.h"
#include "dtrain/train/task.h"

namespace dtrain {

// The model, the loaded update and the place in the data. Model has parameters(), Upload(Batch),
// Forward(Inputs) and Backward(), as those in models/.
template <typename Model, typename Batch, typename Inputs>
class ModelTask : public TrainingTask {
 public:
  ParameterSet& parameters() override { return model_.parameters(); }
  DataPosition position() const override { return position_; }
  BatchInfo batch() const override {
    return {.source_tokens = tokens_, .global_tokens = global_tokens_};
  }
  void Upload(int i, Context& ctx) override {
    inputs_ = {};
    inputs_ = model_.Upload(micro_batches_.at(static_cast<size_t>(i)), ctx);
  }
  LossSums Forward(int /*i*/, Context& ctx) override { return model_.Forward(inputs_, ctx); }
  void Backward(Context& ctx) override { model_.Backward(ctx); }

  Model& model() { return model_; }

 protected:
  // The communicator outlives the task.
  template <typename ModelOptions>
  ModelTask(const ModelOptions& options, Communicator& comm)
      : model_(options), comm_(comm), share_{.rank = comm.rank(), .num_ranks = comm.size()} {}

  Communicator& comm() const { return comm_; }
  const RankShare& share() const { return share_; }
  void set_accumulation(int micro_batches) { share_.accumulation = micro_batches; }
  const Inputs& inputs() const { return inputs_; }  // of the uploaded micro-batch
  int64_t epoch_samples() const { return epoch_samples_; }

  // The next update begins at `position`, in an epoch of so many samples.
  void MoveTo(const DataPosition& position, int64_t epoch_samples) {
    position_ = position;
    epoch_samples_ = epoch_samples;
  }
  // Takes this rank's part of an update, behind which `next` lies; returns what NextUpdate() does.
  int Load(std::vector<Batch> micro_batches, int64_t global_tokens, const DataPosition& next,
           int64_t epoch_samples) {
    inputs_ = {};
    global_tokens_ = global_tokens;
    micro_batches_ = std::move(micro_batches);
    MoveTo(next, epoch_samples);
    tokens_ = 0;
    for (const Batch& micro : micro_batches_) tokens_ += SourceTokensOf(micro);
    return static_cast<int>(micro_batches_.size());
  }

 private:
  static int64_t SourceTokensOf(const Batch& batch) {
    if constexpr (requires { batch.source; }) {
      return batch.source.tokens();
    } else {
      return batch.sequences.tokens();
    }
  }

  Model model_;
  Communicator& comm_;
  RankShare share_;
  std::vector<Batch> micro_batches_;
  Inputs inputs_;
  DataPosition position_;
  int64_t epoch_samples_ = 1;
  int64_t tokens_ = 0;
  int64_t global_tokens_ = 0;
};

// UsageError where the device does not compute in this type.
Status CheckComputeType(DType compute_type, const Device& device);

// EpochInfo::updates_until of samples that are the same in each epoch.
std::optional<int64_t> CountUpdatesOf(const SampleLengths& lengths, const BatchOptions& options,
                                      const DataPosition& from, int64_t epochs);
// TrainingTask::epoch() of such samples. `batch` and what `lengths` looks at live as long as the
// task.
EpochInfo EpochOf(int64_t samples, const BatchOptions& batch,
                  std::function<SampleLengths()> lengths);
// TrainingTask::GraphKey() of packed texts; "" where there are none.
std::string GraphKeyOf(const Sequences& sequences);
// Identity::model of a model with this encoder.
std::string ModelTextOf(const BertOptions& options);
// The same of adapters.
std::string LowRankTextOf(const LowRankOptions& options);
// Ranks must have alike what these texts say of the training data and of the dev set.
Identity IdentityOf(std::string training_data, std::string evaluation, std::string model);
// TrainingTask::checkpoint() with these files. StorageError where a checkpoint has a tokenizer's
// file, or one of those called `fixed`, with other contents.
CheckpointContents ContentsOf(std::vector<NamedFile> files, std::vector<std::string> fixed = {});
// Sets a vocab_size of 0. UsageError where the model is too small for the vocabulary or the texts.
Status FitBert(const TextTokenizer& tokenizer, int32_t max_length, BertOptions& model);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_MODEL_TASK_H_
