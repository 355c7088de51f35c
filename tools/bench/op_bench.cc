// op_bench.cc - speed of each op on training shapes: time, GFLOP/s, GB/s, share of the gemm peak.
// SPDX-License-Identifier: Apache-2.0
//
//   op_bench [--op=gemm|attention|elementwise|all] [--type=float32|bfloat16] [--threads=N]
//            [--repeat=K]
// A line is the median of K runs. The peak is the best 1024^3 product in that type, measured first.
// One thread is measured in processor time, which other programs disturb less than the clock.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/cpu_isa.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/device/arena.h"
#include "dtrain/device/copy.h"
#include "dtrain/nn/costs.h"
#include "dtrain/ops/adam.h"
#include "dtrain/ops/attention.h"
#include "dtrain/ops/bias_activation.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/cross_entropy.h"
#include "dtrain/ops/dropout_residual.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/ops/lamb.h"
#include "dtrain/ops/layer_norm.h"

namespace dtrain {
namespace {

struct Options {
  std::string op = "all";
  DType type = DType::kFloat32;
  int threads = 1;
  int repeat = 15;
};

// What one run costs: floating-point operations and bytes that must move.
struct Work {
  double flops = 0;
  double bytes = 0;
};

double SecondsNow(int threads) {
  timespec now = {};
  clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), arena_(Arena::Create({}, "bench", size_t{1} << 33)) {
    Tensor a = New({1024, 1024});
    Tensor b = New({1024, 1024});
    Tensor c = New({1024, 1024});
    double best = 1e30;
    for (int i = 0; i < 10; ++i) {
      best = std::min(best, SecondsOf([&] { Gemm(a, b, {.transpose_b = true}, c, stream_); }));
    }
    peak_ = 2.0 * 1024 * 1024 * 1024 / best;
    std::printf("%s, %d thread(s), %s, gemm peak %.0f GFLOP/s, median of %d\n",
                std::string(CpuIsaName(BestCpuIsa())).c_str(), options.threads,
                std::string(Name(options.type)).c_str(), peak_ * 1e-9, options.repeat);
    std::printf("%-44s %10s %9s %7s %7s\n", "op", "us", "GFLOP/s", "% peak", "GB/s");
  }

  // A tensor of small random numbers in the measured type.
  Tensor New(const Shape& shape) {
    Tensor wide = New32(shape);
    if (options_.type == DType::kFloat32) return wide;
    Tensor x = Empty(*arena_, shape, options_.type);
    Cast(wide, x, stream_);
    return x;
  }
  Tensor New32(const Shape& shape) {
    Tensor x = Empty(*arena_, shape, DType::kFloat32);
    for (int64_t i = 0; i < x.elements(); ++i) {
      x.data<float>()[i] = 2.0f * random_.NextUniform() - 1.0f;
    }
    return x;
  }

  void Measure(const std::string& name, const Work& work, const std::function<void()>& run) {
    run();
    std::vector<double> seconds;
    for (int i = 0; i < options_.repeat; ++i) seconds.push_back(SecondsOf(run));
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    std::printf("%-44s %10.1f", name.c_str(), median * 1e6);
    if (work.flops > 0) {
      std::printf(" %9.1f %7.1f", work.flops / median * 1e-9, 100 * work.flops / median / peak_);
    } else {
      std::printf(" %9s %7s", "", "");
    }
    std::printf(" %7.1f\n", work.bytes / median * 1e-9);
  }

  Stream& stream() { return stream_; }
  double element() const { return static_cast<double>(SizeOf(options_.type)); }

 private:
  double SecondsOf(const std::function<void()>& run) const {
    const double start = SecondsNow(options_.threads);
    run();
    return SecondsNow(options_.threads) - start;
  }

  Options options_;
  std::shared_ptr<Arena> arena_;
  Stream stream_;
  RandomStream random_{{.seed = 1}};
  double peak_ = 0;
};

void BenchGemm(Bench& bench) {
  const int64_t layers[][2] = {{128, 128}, {384, 128},  {512, 128},  {128, 512},
                               {256, 256}, {1024, 256}, {4000, 128}, {8000, 256}};
  for (const int64_t tokens : {731, 2001}) {
    for (const auto& [out, in] : layers) {
      Tensor x = bench.New({tokens, in});
      Tensor weight = bench.New({out, in});
      Tensor y = bench.New({tokens, out});
      Tensor d_weight = bench.New32({out, in});
      const auto sizes = static_cast<double>(tokens * (in + out) + in * out);
      const Work work = {2.0 * static_cast<double>(tokens * in * out), sizes * bench.element()};
      const std::string shape =
          std::to_string(tokens) + " x " + std::to_string(in) + " -> " + std::to_string(out);
      bench.Measure("linear " + shape, work,
                    [&] { LinearForward(x, weight, {}, y, bench.stream()); });
      bench.Measure("  d_input", work, [&] { Gemm(y, weight, {}, x, bench.stream()); });
      bench.Measure("  d_weight", work,
                    [&] { Gemm(y, x, {.transpose_a = true}, d_weight, bench.stream()); });
    }
  }
}

void BenchAttention(Bench& bench, int64_t sequences, int32_t length, int64_t hidden, int heads,
                    const AttentionOptions& base) {
  std::vector<int32_t> offsets = {0};
  for (int64_t i = 0; i < sequences; ++i) offsets.push_back(offsets.back() + length);
  const Sequences packed(offsets);
  AttentionOptions options = base;
  options.num_heads = heads;
  const int64_t tokens = packed.tokens();
  Tensor qkv = bench.New({tokens, 3 * hidden});
  Tensor d_qkv = bench.New({tokens, 3 * hidden});
  Tensor out = bench.New({tokens, hidden});
  Tensor d_out = bench.New({tokens, hidden});
  Tensor log_sum_exp = bench.New32({tokens, heads});
  const Tensor q = qkv.Columns(0, hidden);
  const Tensor k = qkv.Columns(hidden, 2 * hidden);
  const Tensor v = qkv.Columns(2 * hidden, 3 * hidden);
  Tensor dq = d_qkv.Columns(0, hidden);
  Tensor dk = d_qkv.Columns(hidden, 2 * hidden);
  Tensor dv = d_qkv.Columns(2 * hidden, 3 * hidden);
  // Every product of queries, keys and head_dim; causal ones count half.
  const double pairs = SelfAttentionPairs(length, options.window) * (options.causal ? 0.5 : 1.0);
  const double product = 2.0 * static_cast<double>(sequences * hidden) * pairs;
  const double rows = static_cast<double>(tokens * hidden) * bench.element();
  const std::string name = "attention " + std::to_string(sequences) + " x " +
                           std::to_string(length) + ", " + std::to_string(hidden) + "/" +
                           std::to_string(heads) + (options.causal ? " causal" : "") +
                           (options.window > 0 ? " window " + std::to_string(options.window) : "") +
                           (options.dropout.probability > 0 ? " dropout" : "");
  bench.Measure(name, {2 * product, 4 * rows}, [&] {
    AttentionForward(q, k, v, packed, packed, options, out, log_sum_exp, bench.stream());
  });
  const AttentionSaved saved = {q, k, v, out, log_sum_exp};
  bench.Measure("  backward", {5 * product, 8 * rows}, [&] {
    AttentionBackward(d_out, saved, packed, packed, options, dq, dk, dv, bench.stream());
  });
}

void BenchAttentions(Bench& bench) {
  const AttentionOptions plain;
  const AttentionOptions dropout = {.dropout = {0.1f, {.seed = 1}}};
  const AttentionOptions causal = {.causal = true, .dropout = {0.1f, {.seed = 1}}};
  for (const AttentionOptions& options : {plain, dropout, causal}) {
    BenchAttention(bench, 64, 32, 128, 4, options);
    BenchAttention(bench, 64, 32, 256, 4, options);
  }
  BenchAttention(bench, 120, 17, 256, 4, dropout);
  BenchAttention(bench, 16, 128, 512, 8, dropout);
  BenchAttention(bench, 4, 512, 512, 8, dropout);
  // As in ModernBERT, whose layers see 64 tokens on either side or all.
  for (const int32_t length : {512, 1024, 8192}) {
    for (const int window : {0, 64}) {
      BenchAttention(bench, 8192 / length, length, 128, 2, {.window = window});
    }
  }
}

void BenchElementwise(Bench& bench, int64_t rows, int64_t hidden) {
  Stream& stream = bench.stream();
  Tensor x = bench.New({rows, hidden});
  Tensor y = bench.New({rows, hidden});
  Tensor z = bench.New({rows, hidden});
  Tensor bias = bench.New({hidden});
  Tensor gamma = bench.New32({hidden});
  Tensor beta = bench.New32({hidden});
  Tensor mean = bench.New32({rows});
  Tensor rstd = bench.New32({rows});
  Tensor d_gamma = bench.New32({hidden});
  Tensor d_beta = bench.New32({hidden});
  Tensor d_bias = bench.New32({hidden});
  const Dropout dropout = {0.1f, {.seed = 1}};
  const double pass = static_cast<double>(rows * hidden) * bench.element();
  const std::string shape = " " + std::to_string(rows) + " x " + std::to_string(hidden);
  bench.Measure("layer_norm" + shape, {0, 2 * pass},
                [&] { LayerNormForward(x, gamma, beta, 1e-5f, y, mean, rstd, stream); });
  bench.Measure("  backward", {0, 3 * pass}, [&] {
    LayerNormBackward(y, x, gamma, mean, rstd, {}, z, d_gamma, d_beta, stream);
  });
  bench.Measure("residual_layer_norm" + shape, {0, 4 * pass}, [&] {
    ResidualLayerNormForward(x, bias, z, dropout, gamma, beta, 1e-5f, z, y, mean, rstd, stream);
  });
  bench.Measure("dropout_residual" + shape, {0, 3 * pass},
                [&] { DropoutResidualForward(x, bias, z, dropout, y, stream); });
  for (const Activation activation : {Activation::kRelu, Activation::kGeluErf}) {
    const std::string name =
        activation == Activation::kRelu ? "bias_activation relu" : "bias_activation gelu_erf";
    bench.Measure(name + shape, {0, 2 * pass},
                  [&] { BiasActivationForward(x, bias, activation, dropout, y, stream); });
    bench.Measure("  backward", {0, 3 * pass}, [&] {
      BiasActivationBackward(y, x, bias, activation, dropout, z, d_bias, stream);
    });
  }
}

void BenchLossAndUpdate(Bench& bench) {
  const int64_t rows = 2001;
  const int64_t classes = 8000;
  Stream& stream = bench.stream();
  Tensor logits = bench.New({rows, classes});
  std::vector<int32_t> ids(static_cast<size_t>(rows), 7);
  const Tensor targets = Tensor::View(ids.data(), {rows});
  Tensor loss = bench.New32({rows});
  Tensor nll = bench.New32({rows});
  Tensor log_sum_exp = bench.New32({rows});
  float one = 1e-3f;
  const Tensor scale = Tensor::View(&one, {1});
  const double pass = static_cast<double>(rows * classes) * bench.element();
  bench.Measure("cross_entropy 2001 x 8000", {0, pass}, [&] {
    CrossEntropyForward(logits, targets, {0.1f}, loss, nll, log_sum_exp, stream);
  });
  bench.Measure("  backward", {0, 2 * pass}, [&] {
    CrossEntropyBackward(logits, targets, log_sum_exp, {0.1f}, scale, logits, stream);
  });
  const int64_t count = 4 << 20;
  Tensor weights = bench.New32({count});
  Tensor gradients = bench.New32({count});
  Tensor m = bench.New32({count});
  Tensor v = bench.New32({count});
  Zero(v, stream);
  Tensor copy;
  const Tensor step = bench.New32({AdamStep::kValues});
  const AdamStep values;
  CopyToDevice(step.raw(), &values, sizeof(values), stream);
  bench.Measure("adam 4 Mi", {0, 28.0 * static_cast<double>(count)},
                [&] { AdamUpdate(gradients, step, {}, weights, m, v, copy, stream); });
  // Tensors as of a layer of BERT base.
  std::vector<LambSegment> segments;
  for (int64_t begin = 0; begin < count; begin += 589824) {
    segments.push_back({begin, std::min(begin + 589824, count), 0.01f});
  }
  const std::shared_ptr<Arena> arena = Arena::Create({}, "lamb");
  const LambTable table = MakeLambTable(segments, *arena, stream);
  LambTensors tensors = {.gradients = gradients, .weights = weights, .m = m, .v = v};
  bench.Measure("lamb 4 Mi", {0, 40.0 * static_cast<double>(count)},
                [&] { LambUpdate(table, step, {}, tensors, stream); });
}

// False for what is no option.
bool Parse(std::string_view argument, Options& options) {
  const size_t equals = argument.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = argument.substr(0, equals);
  const std::string value(argument.substr(equals + 1));
  if (name == "--op") {
    options.op = value;
    return value == "gemm" || value == "attention" || value == "elementwise" || value == "all";
  }
  if (name == "--type") {
    options.type = value == "bfloat16" ? DType::kBFloat16 : DType::kFloat32;
    return value == "bfloat16" || value == "float32";
  }
  const int number = std::atoi(value.c_str());
  if (name == "--threads") options.threads = number;
  if (name == "--repeat") options.repeat = number;
  return (name == "--threads" || name == "--repeat") && number > 0;
}

void Run(const Options& options) {
  SetNumThreads(options.threads);
  Bench bench(options);
  const auto wanted = [&](std::string_view op) { return options.op == op || options.op == "all"; };
  if (wanted("gemm")) BenchGemm(bench);
  if (wanted("attention")) BenchAttentions(bench);
  if (wanted("elementwise")) {
    BenchElementwise(bench, 2001, 128);
    BenchElementwise(bench, 2001, 1024);
    BenchLossAndUpdate(bench);
  }
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) {
  dtrain::Options options;
  for (int i = 1; i < argc; ++i) {
    if (!dtrain::Parse(argv[i], options)) {
      std::fprintf(stderr,
                   "%s is no option. Usage: op_bench [--op=gemm|attention|elementwise|all] "
                   "[--type=float32|bfloat16] [--threads=N] [--repeat=K]\n",
                   argv[i]);
      return 2;
    }
  }
  dtrain::Run(options);
  return 0;
}
