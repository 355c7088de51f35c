// language_model.cc - trains a GPT on the bytes of a text file with the library's training loop.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 4 language_model TEXT_FILE RUN_DIR [UPDATES]
//
// A model with its data becomes a TrainingTask; the Trainer does the rest: updates over all ranks,
// clipping, evaluation, checkpoints, resuming, stopping on a signal. The run directory has curves,
// logs and samples like those of dtrain's own programs.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "byte_model.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/file.h"
#include "dtrain/dtrain.h"

namespace {

using namespace dtrain;

constexpr int64_t kWindowsPerUpdate = 64;  // over all ranks

// Windows of a text: the last twentieth to evaluate on, the others to learn from.
class ByteTask final : public TrainingTask {
 public:
  ByteTask(std::string text, const ByteModelOptions& options, Communicator& comm,
           const Device& device)
      : text_(std::move(text)), comm_(comm), model_(options, device) {
    const int64_t windows = static_cast<int64_t>(text_.size()) / options.window;
    train_windows_ = windows - std::max<int64_t>(windows / 20, 1);
    Shuffle();
  }

  ParameterSet& parameters() override { return model_.parameters(); }

  // A position counts windows in the shuffled order of its epoch, the same on any number of ranks.
  Status Seek(const DataPosition& position) override {
    if (position.sample % kWindowsPerUpdate != 0 || position.sample > EpochWindows()) {
      return StorageError(absl::StrFormat("the text has no window %d", position.sample));
    }
    position_ = position;
    Shuffle();
    return OkStatus();
  }
  DataPosition position() const override { return position_; }
  double epochs() const override {
    return static_cast<double>(position_.epoch) +
           static_cast<double>(position_.sample) / static_cast<double>(EpochWindows());
  }

  StatusOr<int> NextUpdate() override {
    if (position_.sample == EpochWindows()) {
      position_ = {.epoch = position_.epoch + 1, .sample = 0};
      Shuffle();
    }
    batch_ = {};
    for (int64_t i = comm_.rank(); i < kWindowsPerUpdate; i += comm_.size()) {
      batch_.Add(Window(order_[static_cast<size_t>(position_.sample + i)]),
                 static_cast<int32_t>(i * model_.options().window));
    }
    position_.sample += kWindowsPerUpdate;
    return 1;  // micro-batch
  }
  int64_t source_tokens() const override { return static_cast<int64_t>(batch_.ids.size()); }

  LossSums Forward(int /*i*/, Context& ctx) override { return model_.Forward(batch_, ctx); }
  void Backward(Context& ctx) override { model_.Backward(ctx); }

  StatusOr<EvaluationResult> Evaluate(Context& ctx) override {
    double sums[] = {0.0, 0.0};
    const int64_t windows = static_cast<int64_t>(text_.size()) / model_.options().window;
    const int64_t each = kWindowsPerUpdate;
    for (int64_t i = train_windows_ + comm_.rank() * each; i < windows; i += comm_.size() * each) {
      ByteBatch batch;
      for (int64_t w = i; w < std::min(i + each, windows); ++w) {
        batch.Add(Window(static_cast<uint32_t>(w)), /*number=*/0);
      }
      const LossSums loss = model_.Forward(batch, ctx);
      sums[0] += loss.nll;
      sums[1] += static_cast<double>(loss.tokens);
    }
    comm_.AllReduce(std::span<double>(sums), ReduceOp::kSum);
    const std::string_view last = Window(static_cast<uint32_t>(windows - 1));
    EvaluationResult result;
    result.metrics = {{"nll", sums[0] / sums[1]}, {"bits_per_byte", sums[0] / sums[1] / M_LN2}};
    const std::string prompt(last.substr(0, last.size() / 4));
    result.samples = {{.source = prompt,
                       .reference = std::string(last),
                       .hypothesis = model_.Generate(prompt, ctx)}};
    return result;
  }

  // A run that resumes goes on with the text and the model it began with, or says what differs.
  std::string TrainingData() const override {
    return absl::StrFormat("text crc32c %08x\nbytes %d\nwindow %d\nwindows per update %d\n",
                           Crc32c(text_), text_.size(), model_.options().window, kWindowsPerUpdate);
  }
  std::string ModelText() const override {
    return absl::StrFormat("heads %d\n", model_.options().num_heads);
  }
  Status CheckCheckpoint(const Checkpoint& /*checkpoint*/) const override { return OkStatus(); }
  std::vector<NamedFile> CheckpointFiles() const override { return {}; }

 private:
  int64_t EpochWindows() const { return train_windows_ / kWindowsPerUpdate * kWindowsPerUpdate; }
  std::string_view Window(uint32_t i) const {
    const auto bytes = static_cast<size_t>(model_.options().window);
    return std::string_view(text_).substr(i * bytes, bytes);
  }
  // Fisher and Yates, of this epoch.
  void Shuffle() {
    order_.resize(static_cast<size_t>(train_windows_));
    std::iota(order_.begin(), order_.end(), 0u);
    RandomStream random({.seed = 1, .step = static_cast<uint32_t>(position_.epoch)});
    for (uint32_t i = static_cast<uint32_t>(order_.size()); i > 1; --i) {
      std::swap(order_[i - 1], order_[random.NextBelow(i)]);
    }
  }

  std::string text_;
  Communicator& comm_;
  ByteModel model_;
  int64_t train_windows_ = 0;
  std::vector<uint32_t> order_;
  DataPosition position_;
  ByteBatch batch_;
};

struct Arguments {
  std::string text;
  std::string run_dir;
  int64_t updates = 1000;
};

StatusOr<Arguments> ParseArguments(int argc, char** argv) {
  if (argc < 3 || argc > 4) return UsageError("usage: language_model TEXT_FILE RUN_DIR [UPDATES]");
  Arguments arguments{.text = argv[1], .run_dir = argv[2]};
  if (argc == 4) arguments.updates = std::atoll(argv[3]);
  if (arguments.updates <= 0) return UsageError("UPDATES is a positive number");
  return arguments;
}

TrainerOptions TrainerOptionsOf(const Arguments& arguments) {
  return {.max_steps = arguments.updates,
          .learning_rate = {.kind = LrScheduleOptions::Kind::kCosine,
                            .base = 2e-3,
                            .warmup_steps = 50,
                            .total_steps = arguments.updates,
                            .minimum = 2e-4},
          .adam = {.beta2 = 0.95f, .epsilon = 1e-8f, .weight_decay = 0.1f},
          .eval_every = {PeriodUnit::kUpdates, 200},
          .checkpoint_every = {PeriodUnit::kUpdates, 200},
          .best_metric = "nll"};
}

// For config.txt: what this run's curves come from.
std::string ConfigText(const Arguments& arguments) {
  const ByteModelOptions model;
  const TrainerOptions trainer = TrainerOptionsOf(arguments);
  return absl::StrFormat(
      "text: %s\nupdates: %d\nwindows_per_update: %d\nwindow: %d\nhidden_size: %d\n"
      "num_layers: %d\nnum_heads: %d\nlearning_rate: %g\nminimum_rate: %g\nwarmup_steps: %d\n"
      "beta2: %g\nweight_decay: %g\n",
      arguments.text, arguments.updates, kWindowsPerUpdate, model.window, model.hidden_size,
      model.num_layers, model.num_heads, trainer.learning_rate.base, trainer.learning_rate.minimum,
      trainer.learning_rate.warmup_steps, trainer.adam.beta2, trainer.adam.weight_decay);
}

StatusOr<TrainResult> Train(const Arguments& arguments, RunRecorder& recorder, Runtime& runtime) {
  const ByteModelOptions model;
  StatusOr<std::string> read = ReadWholeFile(arguments.text);
  if (!read.ok()) return DataError(read.status().message());
  std::string text = *std::move(read);
  if (static_cast<int64_t>(text.size()) < 2 * kWindowsPerUpdate * model.window) {
    return DataError(absl::StrFormat("%s: %d bytes are too few to learn from, give at least %d",
                                     arguments.text, text.size(),
                                     2 * kWindowsPerUpdate * model.window));
  }
  ByteTask task(std::move(text), model, runtime.comm, runtime.device);
  TrainerOptions trainer = TrainerOptionsOf(arguments);
  trainer.checkpoint_dir = recorder.path() + "/ckpt";
  // USR1 saves, TERM saves and stops.
  return RunTraining(task,
                     {.contract = {{"configuration", ConfigText(arguments)}},
                      .trainer = trainer,
                      .context = {.rank = runtime.comm.rank()}},
                     recorder, runtime);
}

}  // namespace

int main(int argc, char** argv) {
  const StatusOr<Arguments> arguments = ParseArguments(argc, argv);
  return RunOnRanks(argc, argv, {}, arguments.status(), [&](Runtime& runtime) -> Status {
    DT_ASSIGN_OR_RETURN(const std::unique_ptr<RunRecorder> recorder,
                        RunRecorder::Open("language_model", {.run_dir = arguments->run_dir},
                                          ConfigText(*arguments), runtime));
    recorder->set_words({.unit = "bytes", .keys = "", .advice = "samples  samples/ of"});
    return recorder->Run([&] { return Train(*arguments, *recorder, runtime); }).status();
  });
}
