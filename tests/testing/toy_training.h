// toy_training.h - short runs of the real trainer on generated text, on ranks that are threads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_TOY_TRAINING_H_
#define DTRAIN_TESTING_TOY_TRAINING_H_

#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/tasks/translation/prepare.h"
#include "dtrain/tasks/translation/task.h"
#include "dtrain/train/trainer.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"
#include "testing/test_device.h"

namespace dtrain {

// A prepared folder whose targets are the sources spelled backwards.
class ToyCorpus {
 public:
  // With a vocabulary of its own where none is given.
  explicit ToyCorpus(int train_pairs = 240, int dev_pairs = 6, uint64_t seed = 1,
                     const std::string& vocabulary = "") {
    RandomStream random({.seed = seed});
    const auto text = [&](int pairs) {
      std::string tsv;
      for (int i = 0; i < pairs; ++i) {
        std::string source;
        const uint32_t length = 3 + random.NextBelow(12);
        for (uint32_t c = 0; c < length; ++c) {
          const bool space = c > 1 && c + 2 < length && random.NextBelow(5) == 0;
          source += space ? ' ' : static_cast<char>('a' + random.NextBelow(8));
        }
        tsv += source + "\t" + std::string(source.rbegin(), source.rend()) + "\n";
      }
      return tsv;
    };
    WriteTestFile(folder_.File("train.tsv"), text(train_pairs));
    WriteTestFile(folder_.File("dev.tsv"), text(dev_pairs));
    PrepareOptions options;
    options.train = {{folder_.File("train.tsv")}};
    options.dev = {folder_.File("dev.tsv")};
    options.hold_out_test = 0;
    options.output_dir = path();
    options.model_path = vocabulary;
    options.bpe.vocab_size = 48;
    options.num_threads = 1;
    const Status status = PrepareParallelCorpus(options).status();
    INFO(std::string(status.message()));
    REQUIRE(status.ok());
  }
  std::string path() const { return folder_.File("data"); }

 private:
  TemporaryFolder folder_;
};

struct ToyRun {
  int ranks = 1;
  std::vector<std::string> hosts = {};  // of the ranks, in their place; empty: all on one host
  // Between GPUs. A real one refuses ranks that share one.
  bool nccl = false;
  TranslationTaskOptions task;
  TrainerOptions trainer;
  uint64_t seed = 1;  // of dropout
  Recompute recompute = Recompute::kNone;
  std::string resume = "never";
  StopFlags* stop_flags = nullptr;
  // Called on every rank before the update that follows `step`.
  std::function<void(int64_t step, ParameterSet& parameters)> before_update = {};
  // Called before each forward pass.
  std::function<void(Context&)> before_forward = {};
  // Called with the results of each evaluation, which it may change.
  std::function<void(EvaluationResult&)> after_evaluation = {};
};

// What one rank has at the end.
struct ToyResult {
  ExitCode exit_code = ExitCode::kDone;
  std::string message;  // of an error
  std::string reason;   // of an end
  TrainState state;
  std::vector<float> weights, first_moments, second_moments, average;
  std::vector<DataPosition> positions;  // before each update
  std::vector<double> losses;           // of each update, over all ranks
  std::vector<int64_t> tokens;          // target tokens so far, after each update
  std::vector<EvaluationResult> evaluations;
  std::vector<StepRecord> records;
  std::vector<std::pair<int64_t, std::string>> events;  // step and kind
  std::vector<std::string> event_texts;                 // of each
  int64_t graphs_recorded = 0, graphs_repeated = 0;
};

// A run of 5 updates of about 11 pairs with a model of 2 x 2 layers.
inline ToyRun MakeToyRun(const ToyCorpus& corpus) {
  ToyRun run;
  run.task.data_dir = corpus.path();
  run.task.device = testing::TestDevice();
  run.task.model = {.encoder_layers = 1,
                    .decoder_layers = 2,
                    .hidden_size = 32,
                    .ffn_size = 40,
                    .num_heads = 4,
                    .dropout = 0.0f,
                    .max_positions = 64};
  run.task.batch.tokens_per_batch = 120;
  run.task.search.beam_size = 1;
  run.task.search.extra_length = 2;
  run.trainer.max_steps = 5;
  run.trainer.learning_rate = {
      .kind = LrScheduleOptions::Kind::kInverseSqrt, .base = 2e-3, .warmup_steps = 4};
  run.trainer.log_every = 1;
  // Several buckets even for this model.
  run.trainer.reducer = {.bucket_bytes = 16 << 10, .first_bucket_bytes = 4 << 10};
  return run;
}

inline constexpr int64_t kFullToySteps = 11;

// With everything that draws, adds up or remembers: dropout of all kinds, accumulation, averaged
// weights, evaluations and checkpoints in between, more than one epoch of 70 pairs.
inline ToyRun FullToyRun(const ToyCorpus& corpus, const TemporaryFolder& folder, int ranks) {
  ToyRun run = MakeToyRun(corpus);
  run.ranks = ranks;
  run.task.model.dropout = 0.2f;
  run.task.model.attention_dropout = 0.1f;
  run.task.model.activation_dropout = 0.1f;
  run.task.micro_batch_tokens = 25;
  run.trainer.max_steps = kFullToySteps;
  run.trainer.adam = {.weight_decay = 0.01f, .ema_decay = 0.9f};
  run.trainer.eval_every = {PeriodUnit::kUpdates, 4};
  run.trainer.checkpoint_every = {PeriodUnit::kUpdates, 3};
  run.trainer.checkpoint_dir = folder.File("ckpt");
  run.trainer.best_metric = "nll";
  run.resume = "auto";
  return run;
}

// Asks for a stop before the update that follows `step`.
inline void StopAt(ToyRun& run, int64_t step, StopFlags& flags) {
  run.stop_flags = &flags;
  run.before_update = [step, &flags](int64_t now, ParameterSet&) {
    if (now == step) flags.stop = true;
  };
}

// Makes a weight infinite before update 2 and as it was before update 3, on one rank only.
inline void BreakOneRank(ToyRun& run) {
  struct Break {
    std::mutex mutex;
    std::thread::id rank;
    float saved = 0.0f;
  };
  run.before_update = [state = std::make_shared<Break>()](int64_t step, ParameterSet& parameters) {
    const std::lock_guard lock(state->mutex);
    float& weight = *parameters.weights().data<float>();
    if (step == 1 && state->rank == std::thread::id()) {
      state->rank = std::this_thread::get_id();
      state->saved = weight;
      weight = std::numeric_limits<float>::infinity();
    } else if (step == 2 && state->rank == std::this_thread::get_id()) {
      weight = state->saved;
    }
  };
}

namespace internal {

// Passes everything on to a TranslationTask and takes notes.
class ToyTask final : public TrainingTask {
 public:
  ToyTask(TranslationTask& task, const ToyRun& run, ToyResult& result)
      : task_(task), run_(run), result_(result) {}

  ParameterSet& parameters() override { return task_.parameters(); }
  Status Seek(const DataPosition& position) override { return task_.Seek(position); }
  DataPosition position() const override { return task_.position(); }
  EpochInfo epoch() const override { return task_.epoch(); }
  StatusOr<int> NextUpdate() override {
    if (run_.before_update) run_.before_update(step_++, parameters());
    result_.positions.push_back(task_.position());
    return task_.NextUpdate();
  }
  BatchInfo batch() const override { return task_.batch(); }
  double losses_per_update() const override { return task_.losses_per_update(); }
  void Upload(int i, Context& ctx) override { task_.Upload(i, ctx); }
  std::string GraphKey() const override { return task_.GraphKey(); }
  LossSums Forward(int i, Context& ctx) override {
    if (run_.before_forward) run_.before_forward(ctx);
    return task_.Forward(i, ctx);
  }
  void Backward(Context& ctx) override { task_.Backward(ctx); }
  Evaluation evaluation() override {
    Evaluation noted = task_.evaluation();
    noted.dev = [this](Context& ctx) -> StatusOr<EvaluationResult> {
      DT_ASSIGN_OR_RETURN(EvaluationResult result, task_.Evaluate(ctx));
      if (run_.after_evaluation) run_.after_evaluation(result);
      result_.evaluations.push_back(result);
      return result;
    };
    noted.test = {};
    return noted;
  }
  Identity identity() const override { return task_.identity(); }
  CheckpointContents checkpoint() const override { return task_.checkpoint(); }
  void set_step(int64_t step) { step_ = step; }

 private:
  TranslationTask& task_;
  const ToyRun& run_;
  ToyResult& result_;
  int64_t step_ = 0;
};

class ToyObserver final : public TrainObserver {
 public:
  explicit ToyObserver(ToyResult& result) : result_(result) {}
  void OnStep(const StepRecord& record) override {
    result_.losses.push_back(record.loss);
    result_.tokens.push_back(record.target_tokens);
    result_.records.push_back(record);
  }
  void OnEvent(int64_t step, const std::string& kind, const std::string& text) override {
    result_.events.emplace_back(step, kind);
    result_.event_texts.push_back(text);
  }

 private:
  ToyResult& result_;
};

inline std::vector<float> CopyOf(const Tensor& tensor) {
  if (!tensor) return {};
  return testing::ElementsOf<float>(tensor);
}

inline ToyResult TrainOnRank(const ToyRun& run, Communicator& comm) {
  ToyResult result;
  const auto fail = [&](const Status& status) {
    result.exit_code = status.code();
    result.message = status.message();
    return result;
  };
  StatusOr<std::unique_ptr<TranslationTask>> created = TranslationTask::Create(run.task, comm);
  if (!created.ok()) return fail(created.status());
  TranslationTask& task = **created;
  ToyTask noted(task, run, result);
  ToyObserver observer(result);
  Context ctx(run.task.device, {.compute_type = run.task.compute_type,
                                .recompute = run.recompute,
                                .seed = run.seed,
                                .rank = comm.rank()});
  Trainer trainer(noted, comm, ctx, run.trainer);
  trainer.set_observer(&observer);
  trainer.set_stop_flags(run.stop_flags);
  const Status resumed = trainer.Resume(run.resume);
  if (!resumed.ok()) return fail(resumed);
  noted.set_step(trainer.state().step);
  const StatusOr<TrainResult> trained = trainer.Run();
  if (trained.ok()) {
    result.reason = Name(trained->reason);
  } else {
    fail(trained.status());
  }
  result.state = trainer.state();
  result.weights = CopyOf(task.parameters().weights());
  result.first_moments = CopyOf(trainer.optimizer().first_moments());
  result.second_moments = CopyOf(trainer.optimizer().second_moments());
  result.average = CopyOf(trainer.optimizer().average());
  result.graphs_recorded = trainer.graphs().num_recorded();
  result.graphs_repeated = trainer.graphs().num_repeated();
  return result;
}

}  // namespace internal

// Trains on a thread per rank; results by rank.
inline std::vector<ToyResult> TrainToy(const ToyRun& run) {
  return testing::RunRanksOn(run.hosts.empty() ? testing::OneHost(run.ranks) : run.hosts,
                             [&](Communicator& comm) { return internal::TrainOnRank(run, comm); },
                             {.nccl = run.nccl});
}

}  // namespace dtrain

#endif  // DTRAIN_TESTING_TOY_TRAINING_H_
