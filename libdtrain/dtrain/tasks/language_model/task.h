// task.h - language modelling as a training task: windows of texts, a Gpt, bits per byte.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_LANGUAGE_MODEL_TASK_H_
#define DTRAIN_TASKS_LANGUAGE_MODEL_TASK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/models/gpt.h"
#include "dtrain/models/gpt_sampling.h"
#include "dtrain/tasks/language_model/windows.h"
#include "dtrain/tasks/shared/walked_task.h"

namespace dtrain {

struct LanguageModelTaskOptions {
  std::vector<std::string> train;
  std::vector<std::string> dev = {};  // none: hold_out
  TextUnit unit = TextUnit::kFile;
  double hold_out = 0.05;              // share of train's windows, the last ones; 0: no evaluations
  int32_t max_length = 1024;           // tokens of a window
  GptOptions model = {};               // its vocab_size is kTokenVocabulary
  BatchOptions batch = {};             // of an update over all ranks; its samples are windows
  int64_t micro_batch_tokens = 16384;  // a rank's share is cut into micro-batches of at most this
  Device device = {};                  // where the model lives
  DType compute_type = DType::kFloat32;
  uint64_t seed = 1;                  // of the weights' first values
  int64_t eval_batch_tokens = 8192;   // evaluated at once, on a rank
  SamplingOptions sampling = {};      // of the text that an evaluation shows
  std::vector<NamedFile> files = {};  // travel in checkpoints: configuration
};

// Texts to learn from, and texts to evaluate on.
struct LanguageModelData {
  TextWindows train;
  std::optional<TextWindows> dev = {};
};
// Reads train and dev, or holds a part of train out. DataError: a file that cannot be used.
StatusOr<LanguageModelData> ReadData(const LanguageModelTaskOptions& options);

class LanguageModelTask final : public WalkedTask<Gpt, GptBatch, GptInputs> {
 public:
  // Reads the texts, on each rank, and initialises the model. The communicator outlives the task.
  // DataError: a file that cannot be used, or fewer windows than ranks. UsageError: options that do
  // not fit each other.
  static StatusOr<std::unique_ptr<LanguageModelTask>> Create(
      const LanguageModelTaskOptions& options, Communicator& comm);

  Evaluation evaluation() override {
    return {.dev = [this](Context& ctx) { return Evaluate(ctx); },
            .sample = [this](Context& ctx) { return EvaluateSample(ctx); }};
  }
  Identity identity() const override;
  CheckpointContents checkpoint() const override;
  double losses_per_update() const override;  // tokens
  std::string GraphKey() const override { return GraphKeyOf(inputs().sequences); }

  // The metrics of the dev set, and a sample; none without one.
  StatusOr<EvaluationResult> Evaluate(Context& ctx);
  // The loss on a sample of the training windows. There must be a dev set.
  StatusOr<EvaluationResult> EvaluateSample(Context& ctx);

  const TextWindows& train() const { return data_.train; }
  const TextWindows* dev() const { return data_.dev ? &*data_.dev : nullptr; }

 private:
  LanguageModelTask(const LanguageModelTaskOptions& options, LanguageModelData data,
                    Communicator& comm);
  GptBatch Pack(std::span<const uint32_t> windows) const override {
    return data_.train.Pack(windows);
  }
  int64_t LossesOf(uint32_t window) const override { return data_.train.lengths()[window]; }

  LanguageModelTaskOptions options_;
  LanguageModelData data_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_LANGUAGE_MODEL_TASK_H_
