// dtrain_step_bench.cc - times whole training steps of two small models; one JSON line.
// SPDX-License-Identifier: Apache-2.0
//
//   dtrain_step_bench --model=seq2seq --threads=2 --precision=fp32 --steps=12 [--lengths=real]
//
// cls: 4 encoder layers, hidden 256, 4 heads, ffn 1024, gelu, 32 x 128 tokens, 4 classes at the
// first token. seq2seq: 3+3 layers, hidden 256, ffn 1024, relu, vocabulary 8000, 64 pairs of 32+32
// tokens, untied output, label smoothing 0.1. Dropout 0.1 everywhere, Adam. --lengths=real draws
// lengths as sentences have them (mean about half of the longest); a padded peer still computes the
// longest.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "dtrain/app/flag_set.h"
#include "dtrain/app/run_on_ranks.h"
#include "dtrain/base/random.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/timer.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/embedding.h"
#include "dtrain/optim/adam.h"

namespace dtrain {
namespace {

constexpr int64_t kHidden = 256;
constexpr int64_t kFfn = 1024;
constexpr int64_t kVocab = 8000;

struct Options {
  std::string model = "seq2seq";
  std::string precision = "fp32";
  std::string lengths = "fixed";
  std::string recompute = "none";
  int64_t threads = 1;
  int64_t steps = 12;
  double dropout = 0.1;
};

// A model with one step of forward and backward over a batch of its own making.
class Workload {
 public:
  virtual ~Workload() = default;
  virtual ParameterSet& parameters() = 0;
  virtual void NewBatch(RandomStream& random) = 0;
  virtual void ForwardBackward(Context& ctx) = 0;
  virtual double gflop() const = 0;  // 3 x the forward products of the present batch
  virtual int64_t tokens() const = 0;
};

Sequences DrawLengths(int64_t count, int32_t longest, bool real, RandomStream& random) {
  std::vector<int32_t> offsets{0};
  for (int64_t i = 0; i < count; ++i) {
    int32_t length = longest;
    // The mean of two uniforms: a hump at half the longest.
    if (real)
      length = static_cast<int32_t>(
          2 + (random.NextBelow(longest - 1) + random.NextBelow(longest - 1)) / 2);
    offsets.push_back(offsets.back() + length);
  }
  return Sequences(std::move(offsets));
}

std::vector<int32_t> DrawIds(int64_t count, RandomStream& random) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(random.NextBelow(kVocab - 1));
  return ids;
}

// 2 x multiply-adds of the attention products over pairs of sequences, one layer.
double AttentionFlop(const Sequences& queries, const Sequences& keys) {
  double pairs = 0.0;
  for (int64_t i = 0; i < queries.count(); ++i) {
    pairs += static_cast<double>(queries.length(i)) * keys.length(i);
  }
  return 4.0 * pairs * kHidden;
}

class Seq2SeqWorkload final : public Workload {
 public:
  explicit Seq2SeqWorkload(const Options& options, DType dtype)
      : real_(options.lengths == "real"),
        model_({.vocab_size = kVocab,
                .encoder_layers = 3,
                .decoder_layers = 3,
                .hidden_size = kHidden,
                .ffn_size = kFfn,
                .num_heads = 4,
                .tie_output = false,
                .dropout = static_cast<float>(options.dropout),
                .attention_dropout = static_cast<float>(options.dropout),
                .activation_dropout = static_cast<float>(options.dropout)}) {
    model_.Allocate({}, dtype, 1);
  }
  ParameterSet& parameters() override { return model_.parameters(); }
  void NewBatch(RandomStream& random) override {
    batch_.source = DrawLengths(64, 32, real_, random);
    batch_.target = DrawLengths(64, 32, real_, random);
    batch_.source_ids = DrawIds(batch_.source.tokens(), random);
    batch_.decoder_ids = DrawIds(batch_.target.tokens(), random);
    batch_.target_ids = DrawIds(batch_.target.tokens(), random);
  }
  void ForwardBackward(Context& ctx) override {
    model_.Forward(batch_, 1.0f, ctx);
    model_.Backward(ctx);
  }
  double gflop() const override {
    const auto source = static_cast<double>(batch_.source.tokens());
    const auto target = static_cast<double>(batch_.target.tokens());
    const double d = kHidden;
    double flop = 3.0 * (source * (8.0 * d * d + 4.0 * d * kFfn) +
                         AttentionFlop(batch_.source, batch_.source));
    flop += 3.0 * (target * (12.0 * d * d + 4.0 * d * kFfn) + source * 4.0 * d * d +
                   AttentionFlop(batch_.target, batch_.target) +
                   AttentionFlop(batch_.target, batch_.source));
    flop += 2.0 * target * d * kVocab;
    return 3.0 * flop / 1e9;
  }
  int64_t tokens() const override { return batch_.target.tokens(); }

 private:
  bool real_;
  Seq2SeqTransformer model_;
  TranslationBatch batch_;
};

class ClassifierWorkload final : public Workload {
 public:
  explicit ClassifierWorkload(const Options& options, DType dtype)
      : real_(options.lengths == "real"), dropout_(static_cast<float>(options.dropout)) {
    const Scope scope(parameters_, "");
    words_ = &scope.Add("words", {kVocab, kHidden}, Initializer::Normal(0.06f));
    positions_ = &scope.Add("positions", {kLongest, kHidden}, Initializer::Normal(0.06f));
    for (int i = 0; i < kLayers; ++i) {
      layers_.push_back(std::make_unique<TransformerLayer>(
          scope / ("layers." + std::to_string(i)),
          TransformerLayerOptions{.hidden_size = kHidden,
                                  .ffn_size = kFfn,
                                  .num_heads = 4,
                                  .activation = Activation::kGeluErf,
                                  .dropout = dropout_,
                                  .attention_dropout = dropout_,
                                  .activation_dropout = dropout_}));
    }
    head_ = &scope.Add("head", {4, kHidden}, Initializer::XavierUniform());
    parameters_.Allocate({}, dtype, 1);
    loss_ = std::make_unique<OutputLoss>(*head_, CrossEntropyOptions());
  }
  ParameterSet& parameters() override { return parameters_; }
  void NewBatch(RandomStream& random) override {
    sequences_ = DrawLengths(kBatch, kLongest, real_, random);
    ids_ = DrawIds(sequences_.tokens(), random);
    position_ids_.resize(ids_.size());
    firsts_.clear();
    labels_.clear();
    for (int64_t s = 0; s < sequences_.count(); ++s) {
      firsts_.push_back(sequences_.begin(s));
      labels_.push_back(static_cast<int32_t>(random.NextBelow(4)));
      std::iota(position_ids_.begin() + sequences_.begin(s),
                position_ids_.begin() + sequences_.end(s), 0);
    }
  }
  void ForwardBackward(Context& ctx) override {
    const LayerInputs inputs{sequences_, Tensor(), sequences_};
    const Tensor ids = ctx.Upload(ids_);
    const Tensor positions = ctx.Upload(position_ids_);
    Tensor x = ctx.Empty({ids.dim(0), kHidden});
    EmbeddingForward(ids, positions, words_->value(), positions_->value(), {}, x, ctx.stream());
    for (const auto& layer : layers_) x = layer->Forward(x, inputs, ctx);
    const Tensor firsts = ctx.Upload(firsts_);
    Tensor pooled = ctx.Empty({kBatch, kHidden});
    GatherRows(x, firsts, pooled, ctx.stream());
    Tensor none;
    loss_->Forward(pooled, ctx.Upload(labels_), 1.0f, none, ctx);
    Tensor gradient = ctx.Empty(x.shape());
    Zero(gradient, ctx.stream());
    ScatterAddRows(loss_->Backward(), firsts, gradient, ctx.stream());
    for (size_t i = layers_.size(); i-- > 0;) {
      gradient = layers_[i]->Backward(gradient, inputs, none, ctx);
    }
    EmbeddingBackward(gradient, ids, positions, {}, words_->gradient(), positions_->gradient(),
                      ctx.stream());
  }
  double gflop() const override {
    const auto t = static_cast<double>(sequences_.tokens());
    const double d = kHidden;
    return 3.0 * kLayers *
           (t * (8.0 * d * d + 4.0 * d * kFfn) + AttentionFlop(sequences_, sequences_)) / 1e9;
  }
  int64_t tokens() const override { return sequences_.tokens(); }

 private:
  static constexpr int kLayers = 4;
  static constexpr int64_t kBatch = 32;
  static constexpr int32_t kLongest = 128;

  bool real_;
  float dropout_;
  ParameterSet parameters_;
  Parameter *words_, *positions_, *head_;
  std::vector<std::unique_ptr<TransformerLayer>> layers_;
  std::unique_ptr<OutputLoss> loss_;
  Sequences sequences_;
  std::vector<int32_t> ids_, position_ids_, firsts_, labels_;
};

double ProcessSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

absl::Status Run(const Options& options) {
  const DType dtype = options.precision == "bf16" ? DType::kBFloat16 : DType::kFloat32;
  const Recompute recompute = options.recompute == "full"    ? Recompute::kFull
                              : options.recompute == "cheap" ? Recompute::kCheap
                                                             : Recompute::kNone;
  std::unique_ptr<Workload> workload;
  if (options.model == "cls") {
    workload = std::make_unique<ClassifierWorkload>(options, dtype);
  } else if (options.model == "seq2seq") {
    workload = std::make_unique<Seq2SeqWorkload>(options, dtype);
  } else {
    return UsageError("--model is cls or seq2seq, not " + options.model);
  }
  SetNumThreads(static_cast<int>(options.threads));
  Context ctx({}, {.compute_type = dtype, .recompute = recompute});
  ctx.set_training(true);
  Adam adam(workload->parameters(), {});
  RandomStream random({.seed = 7});
  std::vector<double> wall, cpu, rate, gflops;
  for (int64_t step = 0; step < options.steps + 2; ++step) {
    workload->NewBatch(random);
    const double cpu_before = ProcessSeconds();
    const Timer timer;
    ctx.set_step(static_cast<uint32_t>(step));
    Zero(workload->parameters().gradients(), ctx.stream());
    workload->ForwardBackward(ctx);
    adam.Step(1e-4f, 1.0f / static_cast<float>(workload->tokens()), ctx.stream());
    if (step < 2) continue;  // warm-up
    wall.push_back(timer.Seconds());
    cpu.push_back(ProcessSeconds() - cpu_before);
    rate.push_back(static_cast<double>(workload->tokens()) / wall.back());
    gflops.push_back(workload->gflop() / wall.back());
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"model\":\"%s\",\"threads\":%d,\"precision\":\"%s\",\"lengths\":\"%s\",\"recompute\":\"%"
      "s\","
      "\"params\":%lld,\"gflop_step\":%.1f,\"ms_median\":%.1f,\"ms_min\":%.1f,\"cpu_ms_median\":%."
      "1f,"
      "\"tokens_s\":%.0f,\"gflops\":%.1f,\"activations_mb\":%.1f,\"rss_mb\":%ld}\n",
      options.model.c_str(), NumThreads(), options.precision.c_str(), options.lengths.c_str(),
      options.recompute.c_str(), static_cast<long long>(workload->parameters().num_elements()),
      workload->gflop(), 1e3 * Median(wall), 1e3 * *std::min_element(wall.begin(), wall.end()),
      1e3 * Median(cpu), Median(rate), Median(gflops),
      static_cast<double>(ctx.activations().peak()) / 1e6, usage.ru_maxrss / 1024);
  return absl::OkStatus();
}

absl::Status Main(int argc, char** argv) {
  Options options;
  FlagSet flags("dtrain_step_bench [FLAGS]", "times whole training steps");
  flags.Add("model", "cls or seq2seq", &options.model);
  flags.Add("precision", "fp32 or bf16", &options.precision);
  flags.Add("lengths", "fixed or real", &options.lengths);
  flags.Add("recompute", "none, cheap or full", &options.recompute);
  flags.Add("threads", "compute threads", &options.threads);
  flags.Add("steps", "timed steps, after two of warm-up", &options.steps);
  flags.Add("dropout", "probability", &options.dropout);
  DT_RETURN_IF_ERROR(flags.ParseAll(argc, argv));
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return absl::OkStatus();
  }
  return Run(options);
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) { return dtrain::ReportAndGetExitCode(dtrain::Main(argc, argv)); }
