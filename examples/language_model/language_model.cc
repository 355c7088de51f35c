// language_model.cc - trains a GPT on the bytes of a text file with the library's training loop.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 4 language_model TEXT_FILE RUN_DIR [UPDATES]
//
// ByteTask below makes a TrainingTask of a model and its data. RunTraining() does the rest: updates
// over all ranks, clipping, evaluation, checkpoints, resuming, stopping on a signal.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

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
  ByteTask(std::string text, Communicator& comm, const Device& device)
      : text_(std::move(text)), comm_(comm), model_({}, device) {
    Shuffle();
  }

  ParameterSet& parameters() override { return model_.parameters(); }
  // A position counts windows in the shuffled order of its epoch, for any number of ranks.
  Status Seek(const DataPosition& position) override {
    if (position.sample % kWindowsPerUpdate != 0 || position.sample > epoch().samples) {
      return StorageError(absl::StrFormat("the text has no window %d", position.sample));
    }
    position_ = position;
    Shuffle();
    return OkStatus();
  }
  DataPosition position() const override { return position_; }
  StatusOr<int> NextUpdate() override {
    if (position_.sample == epoch().samples) {
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
  LossSums Forward(int /*i*/, Context& ctx) override { return model_.Forward(batch_, ctx); }
  void Backward(Context& ctx) override { model_.Backward(ctx); }

  // Optional: evaluations, records in epochs and tokens, and texts that tell a resumed run whether
  // it has the data and the model it began with.
  Evaluation evaluation() override {
    return {.dev = [this](Context& ctx) { return Evaluate(ctx); }};
  }
  EpochInfo epoch() const override {
    return {.samples = num_train() / kWindowsPerUpdate * kWindowsPerUpdate};
  }
  BatchInfo batch() const override {
    return {.source_tokens = static_cast<int64_t>(batch_.ids.size())};
  }
  Identity identity() const override {
    return {.training_data = absl::StrFormat(
                "text crc32c %08x\nbytes %d\nwindow %d\nwindows per update %d\n", Crc32c(text_),
                text_.size(), model_.options().window, kWindowsPerUpdate),
            .model = absl::StrFormat("heads %d\n", model_.options().num_heads)};
  }

 private:
  int64_t num_windows() const {
    return static_cast<int64_t>(text_.size()) / model_.options().window;
  }
  int64_t num_train() const { return num_windows() - std::max<int64_t>(num_windows() / 20, 1); }
  std::string_view Window(int64_t i) const {
    const auto bytes = static_cast<size_t>(model_.options().window);
    return std::string_view(text_).substr(static_cast<size_t>(i) * bytes, bytes);
  }
  // Fisher and Yates, of this epoch.
  void Shuffle() {
    order_.resize(static_cast<size_t>(num_train()));
    std::iota(order_.begin(), order_.end(), 0u);
    RandomStream random({.seed = 1, .step = static_cast<uint32_t>(position_.epoch)});
    for (uint32_t i = static_cast<uint32_t>(order_.size()); i > 1; --i) {
      std::swap(order_[i - 1], order_[random.NextBelow(i)]);
    }
  }
  StatusOr<EvaluationResult> Evaluate(Context& ctx) {
    double sums[] = {0.0, 0.0};
    const int64_t each = kWindowsPerUpdate;
    for (int64_t i = num_train() + comm_.rank() * each; i < num_windows();
         i += comm_.size() * each) {
      ByteBatch batch;
      for (int64_t w = i; w < std::min(i + each, num_windows()); ++w) batch.Add(Window(w), 0);
      const LossSums loss = model_.Forward(batch, ctx);
      sums[0] += loss.nll;
      sums[1] += static_cast<double>(loss.tokens);
    }
    comm_.AllReduce(std::span<double>(sums), ReduceOp::kSum);
    const std::string last(Window(num_windows() - 1));
    const std::string prompt = last.substr(0, last.size() / 4);
    const double nll = sums[0] / sums[1];
    return EvaluationResult{
        .metrics = {{"nll", nll}, {"bits_per_byte", nll / M_LN2}},
        .samples = {
            {.source = prompt, .reference = last, .hypothesis = model_.Generate(prompt, ctx)}}};
  }

  std::string text_;
  Communicator& comm_;
  ByteModel model_;
  std::vector<uint32_t> order_;
  DataPosition position_;
  ByteBatch batch_;
};

StatusOr<TrainResult> Train(const std::string& path, const TrainerOptions& options,
                            const std::string& config, RunRecorder& recorder, Runtime& runtime) {
  StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return DataError(text.status().message());
  const int64_t least = 2 * kWindowsPerUpdate * ByteModelOptions().window;
  if (static_cast<int64_t>(text->size()) < least) {
    return DataError(absl::StrFormat("%s: %d bytes are too few to learn from, give at least %d",
                                     path, text->size(), least));
  }
  ByteTask task(*std::move(text), runtime.comm, runtime.device);
  return RunTraining(task, {.agreement = {{"configuration", config}}, .trainer = options}, recorder,
                     runtime);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t updates = argc == 4 ? std::atoll(argv[3]) : 1000;
  const bool is_usable = (argc == 3 || argc == 4) && updates > 0;
  const Status usage = is_usable ? OkStatus()
                                 : UsageError(
                                       "usage: language_model TEXT_FILE RUN_DIR [UPDATES], "
                                       "UPDATES above 0");
  return RunOnRanks(argc, argv, {}, usage, [&](Runtime& runtime) -> Status {
    const std::string text = argv[1], run_dir = argv[2];
    const TrainerOptions options = {
        .max_steps = updates,
        .learning_rate = {.kind = LrScheduleOptions::Kind::kCosine,
                          .base = 2e-3,
                          .warmup_steps = 50,
                          .total_steps = updates,
                          .minimum = 2e-4},
        .adam = {.beta2 = 0.95f, .epsilon = 1e-8f, .weight_decay = 0.1f},
        .eval_every = {PeriodUnit::kUpdates, 200},
        .checkpoint_every = {PeriodUnit::kUpdates, 200},
        .checkpoint_dir = run_dir + "/ckpt",
        .best_metric = "nll"};
    // The recorder writes it to config.txt and reports what a resumed run changes.
    const std::string config = absl::StrFormat("text: %s\nupdates: %d\nlearning_rate: %g\n", text,
                                               updates, options.learning_rate.base);
    DT_ASSIGN_OR_RETURN(const std::unique_ptr<RunRecorder> recorder,
                        RunRecorder::Open("language_model", {.run_dir = run_dir}, config, runtime));
    recorder->set_words({.unit = "bytes", .keys = "", .advice = "samples  samples/ of"});
    return recorder->Run([&] { return Train(text, options, config, *recorder, runtime); }).status();
  });
}
