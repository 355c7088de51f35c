// dtrain_step_bench.cc - times whole training steps on a CPU or a GPU; one JSON line.
// SPDX-License-Identifier: Apache-2.0
//
//   dtrain_step_bench --model=seq2seq --threads=2 --precision=fp32 --steps=12 [--lengths=real]
//   dtrain_step_bench --device=cuda --model=bert_base --precision=bf16 --steps=50
//
// --model, all with dropout 0.1 everywhere and Adam:
//   cls         4 encoder layers, hidden 256, 4 heads, ffn 1024, 32 x 128 tokens, vocabulary 8000
//   seq2seq     3+3 layers of that size, 64 pairs of 32+32 tokens, label smoothing 0.1, untied
//   bert_base   12 encoder layers, hidden 768, 64 x 128 tokens, vocabulary 30528
//   bert_large  24 encoder layers, hidden 1024, 32 x 512 tokens
//   nmt_base    6+6 layers, hidden 512, 128 pairs of 32+32 tokens, vocabulary 32768
// Encoders have gelu and 4 classes at the first token, the others relu. --lengths=real draws
// lengths as sentences have them (mean about half of the longest), --lengths=FILE from those in a
// file, one a line: the tokens of a data set's texts, cut at the longest. A padded peer still
// computes the longest. --sequences and --length take another batch than the model's. --pass=eval
// is a forward pass without dropout and update. --graph repeats forward and backward as a CUDA
// graph, as trainer.cuda_graphs does. On a GPU a time is that of kBlock steps, which end with one
// wait, by their number.
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <initializer_list>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "dtrain/base/file.h"
#include "dtrain/base/random.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/self_communicator.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/device/arena.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/launch/choose_device.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nn/first_token.h"
#include "dtrain/nn/transformer_layer.h"
#include "dtrain/ops/attention_engine.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/embedding.h"
#include "dtrain/ops/gemm_tuning.h"
#include "dtrain/optim/adam.h"
#include "dtrain/train/step_graphs.h"

namespace dtrain {
namespace {

// Steps between two waits for a GPU.
constexpr int kBlock = 10;

struct Sizes {
  std::string_view name;
  int64_t vocab, hidden, ffn;
  int heads, encoder_layers, decoder_layers;
  int32_t sequences, length;
};
constexpr Sizes kModels[] = {{"cls", 8000, 256, 1024, 4, 4, 0, 32, 128},
                             {"seq2seq", 8000, 256, 1024, 4, 3, 3, 64, 32},
                             {"bert_base", 30528, 768, 3072, 12, 12, 0, 64, 128},
                             {"bert_large", 30528, 1024, 4096, 16, 24, 0, 32, 512},
                             {"nmt_base", 32768, 512, 2048, 8, 6, 6, 128, 32}};

struct Options {
  std::string model = "seq2seq";
  std::string device = "cpu";
  std::string gelu = "erf";
  std::string gemm_tuning = "heuristic";
  std::string attention = "native";
  std::string precision = "fp32";
  std::string pass = "train";
  std::string lengths = "fixed";
  std::string recompute = "none";
  int64_t recompute_every = 2;
  int64_t threads = 1;
  int64_t steps = 12;
  int64_t sequences = 0;
  int64_t length = 0;
  double dropout = 0.1;
  bool graph = false;
};

// A model with one step of forward and backward over a batch of its own making.
class Workload {
 public:
  virtual ~Workload() = default;
  virtual ParameterSet& parameters() = 0;
  virtual void NewBatch(RandomStream& random) = 0;
  // Copies the batch to the device. Forward and backward then copy nothing, so that they can be
  // recorded as a graph.
  virtual void Upload(Context& ctx) = 0;
  virtual void Forward(Context& ctx) = 0;
  virtual void Backward(Context& ctx) = 0;
  virtual double forward_gflop() const = 0;  // products of the present batch
  virtual int64_t tokens() const = 0;
};

// How many tokens the texts of a batch have: what --lengths says.
class TextLengths {
 public:
  // Errors: a file that cannot be read, has no line, or a line that is no number of tokens.
  static StatusOr<TextLengths> Of(const std::string& flag) {
    TextLengths lengths;
    lengths.fixed_ = flag == "fixed";
    if (lengths.fixed_ || flag == "real") return lengths;
    DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(flag));
    int64_t line = 0;
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view number = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(number.size() + 1, rest.size()));
      ++line;
      int32_t tokens = 0;
      const auto [end, error] = std::from_chars(number.begin(), number.end(), tokens);
      if (error != std::errc() || end != number.end() || tokens < 1) {
        return UsageError("--lengths: " + flag + ", line " + std::to_string(line) +
                          " is no number of tokens from 1 on");
      }
      lengths.known_.push_back(tokens);
    }
    if (lengths.known_.empty()) return UsageError("--lengths: " + flag + " is empty");
    return lengths;
  }

  // `count` texts of at most `longest` tokens.
  Sequences Draw(int64_t count, int32_t longest, RandomStream& random) const {
    std::vector<int32_t> offsets{0};
    for (int64_t i = 0; i < count; ++i) {
      offsets.push_back(offsets.back() + DrawOne(longest, random));
    }
    Sequences sequences(offsets);
    offsets.pop_back();
    sequences.set_first_numbers(std::move(offsets));  // as a trainer's batches have
    return sequences;
  }

 private:
  int32_t DrawOne(int32_t longest, RandomStream& random) const {
    if (fixed_) return longest;
    if (!known_.empty()) {
      return std::min(longest, known_[random.NextBelow(static_cast<uint32_t>(known_.size()))]);
    }
    // The mean of two uniforms: a hump at half the longest.
    return static_cast<int32_t>(
        2 + (random.NextBelow(longest - 1) + random.NextBelow(longest - 1)) / 2);
  }

  bool fixed_ = false;
  std::vector<int32_t> known_;  // of a file
};

std::vector<int32_t> DrawIds(int64_t count, int64_t vocab, RandomStream& random) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids)
    id = static_cast<int32_t>(random.NextBelow(static_cast<uint32_t>(vocab - 1)));
  return ids;
}

// 2 x multiply-adds of the attention products over pairs of sequences, one layer.
double AttentionFlop(const Sequences& queries, const Sequences& keys, int64_t hidden) {
  double pairs = 0.0;
  for (int64_t i = 0; i < queries.count(); ++i) {
    pairs += static_cast<double>(queries.length(i)) * keys.length(i);
  }
  return 4.0 * pairs * static_cast<double>(hidden);
}

class Seq2SeqWorkload final : public Workload {
 public:
  Seq2SeqWorkload(const Options& options, TextLengths lengths, const Sizes& sizes,
                  const Device& device, DType dtype)
      : lengths_(std::move(lengths)),
        sizes_(sizes),
        model_({.vocab_size = sizes.vocab,
                .encoder_layers = sizes.encoder_layers,
                .decoder_layers = sizes.decoder_layers,
                .hidden_size = sizes.hidden,
                .ffn_size = sizes.ffn,
                .num_heads = sizes.heads,
                .tie_output = false,
                .dropout = static_cast<float>(options.dropout),
                .attention_dropout = static_cast<float>(options.dropout),
                .activation_dropout = static_cast<float>(options.dropout)}) {
    model_.Allocate(device, dtype, 1);
  }
  ParameterSet& parameters() override { return model_.parameters(); }
  void NewBatch(RandomStream& random) override {
    batch_.source = lengths_.Draw(sizes_.sequences, sizes_.length, random);
    batch_.target = lengths_.Draw(sizes_.sequences, sizes_.length, random);
    batch_.source_ids = DrawIds(batch_.source.tokens(), sizes_.vocab, random);
    batch_.decoder_ids = DrawIds(batch_.target.tokens(), sizes_.vocab, random);
    batch_.target_ids = DrawIds(batch_.target.tokens(), sizes_.vocab, random);
  }
  void Upload(Context& ctx) override {
    inputs_ = TranslationInputs();  // before the copy, which then gets the same memory again
    inputs_ = model_.Upload(batch_, ctx);
  }
  void Forward(Context& ctx) override { model_.Forward(inputs_, ctx); }
  void Backward(Context& ctx) override { model_.Backward(ctx); }
  double forward_gflop() const override {
    const auto source = static_cast<double>(batch_.source.tokens());
    const auto target = static_cast<double>(batch_.target.tokens());
    const auto d = static_cast<double>(sizes_.hidden);
    const auto ffn = static_cast<double>(sizes_.ffn);
    const auto attention = [&](const Sequences& queries, const Sequences& keys) {
      return AttentionFlop(queries, keys, sizes_.hidden);
    };
    double flop = sizes_.encoder_layers * (source * (8.0 * d * d + 4.0 * d * ffn) +
                                           attention(batch_.source, batch_.source));
    flop += sizes_.decoder_layers *
            (target * (12.0 * d * d + 4.0 * d * ffn) + source * 4.0 * d * d +
             attention(batch_.target, batch_.target) + attention(batch_.target, batch_.source));
    flop += 2.0 * target * d * static_cast<double>(sizes_.vocab);
    return flop / 1e9;
  }
  int64_t tokens() const override { return batch_.target.tokens(); }

 private:
  TextLengths lengths_;
  Sizes sizes_;
  Seq2SeqTransformer model_;
  TranslationBatch batch_;
  TranslationInputs inputs_;
};

class ClassifierWorkload final : public Workload {
 public:
  ClassifierWorkload(const Options& options, TextLengths lengths, const Sizes& sizes,
                     const Device& device, DType dtype)
      : lengths_(std::move(lengths)), sizes_(sizes), one_each_(OneTokenEach(sizes.sequences)) {
    const auto dropout = static_cast<float>(options.dropout);
    const Scope scope(parameters_, "");
    words_ = &scope.Add("words", {sizes.vocab, sizes.hidden}, Initializer::Normal(0.06f));
    positions_ = &scope.Add("positions", {sizes.length, sizes.hidden}, Initializer::Normal(0.06f));
    const TransformerLayerOptions layer = {
        .hidden_size = sizes.hidden,
        .ffn_size = sizes.ffn,
        .num_heads = sizes.heads,
        .activation = options.gelu == "tanh" ? Activation::kGeluTanh : Activation::kGeluErf,
        .dropout = dropout,
        .attention_dropout = dropout,
        .activation_dropout = sizes.name == "cls" ? dropout : 0.0f};  // BERT has none
    stack_ = std::make_unique<TransformerStack>(
        scope, TransformerStackOptions{.layer = layer, .num_layers = sizes.encoder_layers});
    head_ = &scope.Add("head", {4, sizes.hidden}, Initializer::XavierUniform());
    parameters_.Allocate(device, dtype, 1);
    loss_ = std::make_unique<OutputLoss>(*head_, OutputLossOptions());
  }
  ParameterSet& parameters() override { return parameters_; }
  void NewBatch(RandomStream& random) override {
    sequences_ = lengths_.Draw(sizes_.sequences, sizes_.length, random);
    ids_ = DrawIds(sequences_.tokens(), sizes_.vocab, random);
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
  void Upload(Context& ctx) override {
    id_tensor_ = position_tensor_ = label_tensor_ = Tensor();
    first_ = OutputRows();
    const std::vector<int32_t> numbers = sequences_.NumberRows();
    const std::array<HostList, 8> lists = {
        ids_,    position_ids_, sequences_.offsets(), numbers,
        labels_, firsts_,       one_each_.offsets(),  sequences_.first_numbers()};
    const std::vector<Tensor> on_device = ctx.Upload(lists);
    id_tensor_ = on_device[0];
    position_tensor_ = on_device[1];
    sequences_.set_device_offsets(on_device[2]);
    sequences_.set_row_numbers(on_device[3]);
    label_tensor_ = on_device[4];
    first_ = {on_device[5], one_each_};
    first_.sequences.set_device_offsets(on_device[6]);
    first_.sequences.set_row_numbers(on_device[7]);
  }
  void Forward(Context& ctx) override {
    Tensor x = ctx.Empty({id_tensor_.dim(0), sizes_.hidden});
    EmbeddingForward(id_tensor_, position_tensor_, words_->value(), positions_->value(), {}, x,
                     ctx.stream());
    x = stack_->Forward(x, Inputs(), ctx);
    Tensor none;
    loss_->Forward(x, label_tensor_, none, ctx);
  }
  void Backward(Context& ctx) override {
    Tensor none;
    const Tensor gradient = stack_->Backward(loss_->Backward(), Inputs(), none, ctx);
    EmbeddingBackward(gradient, id_tensor_, position_tensor_, {}, words_->gradient(),
                      positions_->gradient(), ctx.stream());
  }
  double forward_gflop() const override {
    const auto t = static_cast<double>(sequences_.tokens());
    const auto d = static_cast<double>(sizes_.hidden);
    const auto ffn = static_cast<double>(sizes_.ffn);
    const auto texts = static_cast<double>(sizes_.sequences);
    const double layer =
        t * (8.0 * d * d + 4.0 * d * ffn) + AttentionFlop(sequences_, sequences_, sizes_.hidden);
    const double last = t * 4.0 * d * d + texts * (4.0 * d * d + 4.0 * d * ffn) +
                        AttentionFlop(one_each_, sequences_, sizes_.hidden);
    return ((sizes_.encoder_layers - 1) * layer + last) / 1e9;
  }
  int64_t tokens() const override { return sequences_.tokens(); }

 private:
  // The head reads first tokens alone, as a classifier's does.
  LayerInputs Inputs() const { return {sequences_, Tensor(), sequences_, &first_}; }

  TextLengths lengths_;
  Sizes sizes_;
  Sequences one_each_;
  ParameterSet parameters_;
  Parameter *words_, *positions_, *head_;
  std::unique_ptr<TransformerStack> stack_;
  std::unique_ptr<OutputLoss> loss_;
  Sequences sequences_;
  std::vector<int32_t> ids_, position_ids_, firsts_, labels_;
  // They belong to the last upload, as do the tensors of sequences_ and first_.
  Tensor id_tensor_, position_tensor_, label_tensor_;
  OutputRows first_;
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

// The value whose name a flag gives.
template <typename Value>
StatusOr<Value> Named(std::string_view flag, const std::string& name,
                      std::initializer_list<std::pair<std::string_view, Value>> values) {
  std::string known;
  for (const auto& [key, value] : values) {
    if (key == name) return value;
    known += (known.empty() ? "" : ", ") + std::string(key);
  }
  return UsageError("--" + std::string(flag) + " is one of " + known + ", not " + name);
}

StatusOr<std::unique_ptr<Workload>> MakeWorkload(const Options& options, const Device& device,
                                                 DType dtype) {
  DT_ASSIGN_OR_RETURN(TextLengths lengths, TextLengths::Of(options.lengths));
  std::string known;
  for (Sizes sizes : kModels) {
    if (sizes.name == options.model) {
      if (options.sequences > 0) sizes.sequences = static_cast<int32_t>(options.sequences);
      if (options.length > 0) sizes.length = static_cast<int32_t>(options.length);
      if (sizes.decoder_layers > 0) {
        return std::make_unique<Seq2SeqWorkload>(options, std::move(lengths), sizes, device, dtype);
      }
      return std::make_unique<ClassifierWorkload>(options, std::move(lengths), sizes, device,
                                                  dtype);
    }
    known += (known.empty() ? "" : ", ") + std::string(sizes.name);
  }
  return UsageError("--model is one of " + known + ", not " + options.model);
}

struct Timings {
  std::vector<double> wall, cpu, rate, gflops;  // of each step, or block of steps
  int64_t graphs = 0;                           // recorded
};

// The place where a trainer keeps a step's losses, so that no step waits for the device.
LossTensors DeviceLosses(Arena& arena, Stream& stream) {
  constexpr float kOne = 1.0f;
  LossTensors loss = {.scale = Empty(arena, {1}, DType::kFloat32),
                      .loss_sum = Empty(arena, {1}, DType::kFloat64),
                      .nll_sum = Empty(arena, {1}, DType::kFloat64)};
  Upload<float>({&kOne, 1}, loss.scale, stream);
  Zero(loss.loss_sum, stream);
  Zero(loss.nll_sum, stream);
  return loss;
}

// Times options.steps steps, on a GPU in blocks. Batches are made outside of the time.
Timings TimeSteps(const Options& options, Workload& workload, Adam& adam, Context& ctx) {
  const bool on_cpu = ctx.device().type == DeviceType::kCpu;
  const int block = on_cpu ? 1 : kBlock;
  const int64_t warm_up = on_cpu ? 2 : 2 * kBlock;
  const bool training = ctx.training();
  RandomStream random({.seed = 7});
  uint32_t count = 0;
  const std::shared_ptr<Arena> losses = Arena::Create(ctx.device(), "losses");
  ctx.set_loss(DeviceLosses(*losses, ctx.stream()));
  StepGraphs graphs(options.graph, ctx);
  const auto step = [&] {
    ctx.set_step(count++);
    workload.Upload(ctx);
    if (!training) {
      workload.Forward(ctx);
      return;
    }
    graphs.Run("layout " + std::to_string(ctx.activations().Layout()), [&] {
      workload.parameters().BeginGradients(ctx.stream());
      workload.Forward(ctx);
      workload.Backward(ctx);
      workload.parameters().SettleGradients();
      return LossSums();
    });
    adam.Step(1e-4f, 1.0f / static_cast<float>(workload.tokens()), ctx.stream());
  };
  workload.NewBatch(random);
  {
    const MeasureGemms measure_gemms;
    const MeasureAttention measure_attention;
    step();
  }
  for (int64_t i = 1; i < warm_up; ++i) {
    workload.NewBatch(random);
    step();
  }
  // Backward has twice the products of forward.
  const double passes = training ? 3.0 : 1.0;
  Timings timings;
  for (int64_t done = 0; done < options.steps; done += block) {
    double wall = 0.0;
    double cpu = 0.0;
    double tokens = 0.0;
    double gflop = 0.0;
    for (int i = 0; i < block; ++i) {
      workload.NewBatch(random);
      const double cpu_before = ProcessSeconds();
      const Timer timer;
      step();
      if (i + 1 == block) ctx.stream().Synchronize();
      wall += timer.Seconds();
      cpu += ProcessSeconds() - cpu_before;
      tokens += static_cast<double>(workload.tokens());
      gflop += passes * workload.forward_gflop();
    }
    timings.wall.push_back(wall / block);
    timings.cpu.push_back(cpu / block);
    timings.rate.push_back(tokens / wall);
    timings.gflops.push_back(gflop / wall);
  }
  ctx.set_loss({});
  timings.graphs = graphs.num_recorded();
  return timings;
}

// Of the GPU's memory, what is in use; 0 on the CPU.
double DeviceMegabytes([[maybe_unused]] const Device& device) {
  if constexpr (kWithCuda) {
    if (device.type == DeviceType::kCuda) {
      const cuda::DeviceProperties properties = cuda::Properties(device);
      return static_cast<double>(properties.total_bytes - properties.free_bytes) / 1e6;
    }
  }
  return 0.0;
}

StatusOr<Device> ChooseBenchDevice(const std::string& name) {
  DT_ASSIGN_OR_RETURN(
      const DeviceChoice choice,
      Named<DeviceChoice>("device", name,
                          {{"cpu", DeviceChoice::kCpu}, {"cuda", DeviceChoice::kCuda}}));
  SelfCommunicator self;
  return ChooseDevice(choice, self);
}

Status Run(const Options& options) {
  DT_ASSIGN_OR_RETURN(const DType dtype, Named<DType>("precision", options.precision,
                                                      {{"fp32", DType::kFloat32},
                                                       {"bf16", DType::kBFloat16},
                                                       {"fp16", DType::kFloat16}}));
  DT_ASSIGN_OR_RETURN(const Recompute recompute, Named<Recompute>("recompute", options.recompute,
                                                                  {{"none", Recompute::kNone},
                                                                   {"cheap", Recompute::kCheap},
                                                                   {"every_k", Recompute::kEveryK},
                                                                   {"full", Recompute::kFull}}));
  DT_ASSIGN_OR_RETURN(const GemmTuning tuning,
                      Named<GemmTuning>("gemm_tuning", options.gemm_tuning,
                                        {{"off", GemmTuning::kOff},
                                         {"heuristic", GemmTuning::kHeuristic},
                                         {"measure", GemmTuning::kMeasure}}));
  DT_ASSIGN_OR_RETURN(const AttentionEngine engine,
                      Named<AttentionEngine>("attention", options.attention,
                                             {{"native", AttentionEngine::kNative},
                                              {"auto", AttentionEngine::kAuto},
                                              {"cudnn", AttentionEngine::kCudnn},
                                              {"warpgroups", AttentionEngine::kWarpgroups}}));
  const bool wants_cudnn = engine == AttentionEngine::kAuto || engine == AttentionEngine::kCudnn;
  if (wants_cudnn && !WhyNoCudnn().empty()) {
    return UsageError("--attention=" + options.attention + ": " + WhyNoCudnn());
  }
  DT_ASSIGN_OR_RETURN(const bool training,
                      Named<bool>("pass", options.pass, {{"train", true}, {"eval", false}}));
  DT_ASSIGN_OR_RETURN(const Device device, ChooseBenchDevice(options.device));
  if (dtype == DType::kFloat16 && device.type == DeviceType::kCpu) {
    return UsageError("--precision=fp16 needs --device=cuda");
  }
  // Every batch of other lengths would need a graph of its own.
  if (options.graph && (device.type == DeviceType::kCpu || options.lengths != "fixed")) {
    return UsageError("--graph needs --device=cuda and --lengths=fixed");
  }
  SetNumThreads(static_cast<int>(options.threads));
  SetGemmTuning(tuning);
  SetAttentionEngine(engine);
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<Workload> workload,
                      MakeWorkload(options, device, dtype));
  Context ctx(device, {.compute_type = dtype,
                       .recompute = recompute,
                       .recompute_every = static_cast<int>(options.recompute_every)});
  ctx.set_training(training);
  Adam adam(workload->parameters(), {});
  const Timings times = TimeSteps(options, *workload, adam, ctx);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"model\":\"%s\",\"device\":\"%s\",\"pass\":\"%s\",\"threads\":%d,\"precision\":\"%s\","
      "\"lengths\":\"%s\",\"recompute\":\"%s\",\"gelu\":\"%s\",\"gemm_tuning\":\"%s\","
      "\"attention\":\"%s\",\"dropout\":%g,\"graphs\":%lld,"
      "\"params\":%lld,\"gflop_step\":%.1f,\"ms_median\":%.3f,\"ms_min\":%.3f,"
      "\"cpu_ms_median\":%.3f,\"tokens_s\":%.0f,\"gflops\":%.1f,\"activations_mb\":%.1f,"
      "\"device_mb\":%.1f,\"rss_mb\":%ld}\n",
      options.model.c_str(), options.device.c_str(), options.pass.c_str(), NumThreads(),
      options.precision.c_str(), options.lengths.c_str(), options.recompute.c_str(),
      options.gelu.c_str(), options.gemm_tuning.c_str(), options.attention.c_str(), options.dropout,
      static_cast<long long>(times.graphs),
      static_cast<long long>(workload->parameters().num_elements()),
      (training ? 3.0 : 1.0) * workload->forward_gflop(), 1e3 * Median(times.wall),
      1e3 * *std::min_element(times.wall.begin(), times.wall.end()), 1e3 * Median(times.cpu),
      Median(times.rate), Median(times.gflops), static_cast<double>(ctx.activations().peak()) / 1e6,
      DeviceMegabytes(device), usage.ru_maxrss / 1024);
  return OkStatus();
}

Status Main(int argc, char** argv) {
  Options options;
  FlagSet flags("dtrain_step_bench [FLAGS]", "times whole training steps");
  flags.Add("model", "cls, seq2seq, bert_base, bert_large or nmt_base", &options.model);
  flags.Add("device", "cpu or cuda", &options.device);
  flags.Add("precision", "fp32, bf16 or, on a GPU, fp16", &options.precision);
  flags.Add("pass", "train: forward, backward and update; eval: forward alone", &options.pass);
  flags.Add("lengths", "fixed, real or a file of them, one a line", &options.lengths);
  flags.Add("recompute", "none, cheap, every_k or full", &options.recompute);
  flags.Add("recompute_every", "k of every_k", &options.recompute_every);
  flags.Add("gelu", "erf or tanh, of the encoders alone", &options.gelu);
  flags.Add("gemm_tuning", "off, heuristic or measure", &options.gemm_tuning);
  flags.Add("attention", "native, auto, cudnn, which takes --dropout=0, or warpgroups",
            &options.attention);
  flags.Add("graph", "repeats forward and backward as a CUDA graph", &options.graph);
  flags.Add("threads", "compute threads", &options.threads);
  flags.Add("steps", "timed steps, after some of warm-up", &options.steps);
  flags.Add("dropout", "probability", &options.dropout);
  flags.Add("sequences", "how many in a batch; 0: the model's", &options.sequences);
  flags.Add("length", "the longest's tokens; 0: the model's", &options.length);
  DT_RETURN_IF_ERROR(flags.ParseAll(argc, argv));
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return OkStatus();
  }
  return Run(options);
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) {
  try {
    return dtrain::ReportAndGetExitCode(dtrain::Main(argc, argv));
  } catch (const std::bad_alloc& error) {
    return dtrain::ReportAndGetExitCode(dtrain::OutOfMemoryError(error.what()));
  }
}
