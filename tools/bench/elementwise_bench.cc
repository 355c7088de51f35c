// elementwise_bench.cc - GB/s of the ops that are bound by memory, on 1 and 2 threads.
// SPDX-License-Identifier: Apache-2.0
//
//   elementwise_bench [SUBSTRING_OF_AN_OP'S_NAME]
//
// Bytes are those an op must read and write once; the best of several runs counts. "copy" is memcpy
// of the same size: what the machine gives. GB are 10^9 bytes.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <sstream>
#include <string>

#include "dtrain/base/cpu_isa.h"
#include "dtrain/base/random.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/timer.h"
#include "dtrain/device/arena.h"
#include "dtrain/device/copy.h"
#include "dtrain/ops/adam.h"
#include "dtrain/ops/bias_activation.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/cross_entropy.h"
#include "dtrain/ops/dropout_residual.h"
#include "dtrain/ops/embedding.h"
#include "dtrain/ops/gated_activation.h"
#include "dtrain/ops/layer_norm.h"
#include "dtrain/ops/reduce.h"

namespace dtrain {
namespace {

constexpr DType kF32 = DType::kFloat32;

class Bench {
 public:
  explicit Bench(std::string filter) : filter_(std::move(filter)) {}

  Tensor Make(const Shape& shape, DType dtype, uint32_t site) {
    Tensor values = Empty(*arena_, shape, kF32);
    RandomStream random({.seed = 1, .site = site});
    for (int64_t i = 0; i < values.elements(); ++i) {
      values.data<float>()[i] = random.NextUniform() - 0.5f;
    }
    if (dtype == kF32) return values;
    Tensor narrow = Empty(*arena_, shape, dtype);
    Cast(values, narrow, stream_);
    return narrow;
  }
  Tensor Ids(int64_t count, uint32_t bound) {
    Tensor ids = Empty(*arena_, {count}, DType::kInt32);
    RandomStream random({.seed = 2});
    for (int64_t i = 0; i < count; ++i) {
      ids.data<int32_t>()[i] = static_cast<int32_t>(random.NextBelow(bound));
    }
    return ids;
  }

  // Prints a line for `body`, which moves `bytes` bytes.
  void Time(const std::string& name, size_t bytes, const std::function<void()>& body) {
    if (name.find(filter_) == std::string::npos) return;
    std::printf("%-44s", name.c_str());
    for (const int threads : {1, 2}) {
      SetNumThreads(threads);
      body();
      double best = 1e9;
      const Timer total;
      do {
        const Timer timer;
        body();
        best = std::min(best, timer.Seconds());
      } while (total.Seconds() < 0.3);
      std::printf("  %8.3f ms %6.1f GB/s", best * 1e3, static_cast<double>(bytes) / best * 1e-9);
    }
    std::printf("\n");
  }

  void Rows(int64_t rows, int64_t columns, DType dtype);
  void Activations(int64_t rows, int64_t columns, DType dtype);
  void Embeddings(int64_t rows, int64_t columns, DType dtype);
  void Losses(int64_t rows, int64_t classes, DType dtype);
  void Flat(int64_t n);

 private:
  std::string filter_;
  std::shared_ptr<Arena> arena_ = Arena::Create({}, "bench", size_t{1} << 36);
  Stream stream_;
};

std::string Case(const char* op, const Shape& shape, DType dtype) {
  std::ostringstream out;
  out << op << ' ' << shape << ' ' << Name(dtype);
  return out.str();
}

void Bench::Rows(int64_t rows, int64_t columns, DType dtype) {
  const Shape shape = {rows, columns};
  const Tensor x = Make(shape, dtype, 1);
  const Tensor residual = Make(shape, dtype, 2);
  const Tensor bias = Make({columns}, dtype, 3);
  const Tensor gamma = Make({columns}, kF32, 4);
  const Dropout dropout = {0.1f, {.seed = 5}};
  Tensor y = Make(shape, dtype, 6);
  Tensor sum = Make(shape, dtype, 7);
  Tensor mean = Make({rows}, kF32, 8);
  Tensor rstd = Make({rows}, kF32, 9);
  Tensor d_bias = Make({columns}, kF32, 10);
  Tensor d_gamma = Make({columns}, kF32, 11);
  Tensor d_beta = Make({columns}, kF32, 12);
  const size_t once = x.bytes();
  Time(Case("copy", shape, dtype), 2 * once, [&] {
    ParallelFor(static_cast<int64_t>(once), 1 << 17, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char*>(y.raw()) + begin, static_cast<char*>(x.raw()) + begin,
                  static_cast<size_t>(end - begin));
    });
  });
  Time(Case("layer_norm", shape, dtype), 2 * once,
       [&] { LayerNormForward(x, gamma, gamma, 1e-5f, y, mean, rstd, stream_); });
  Time(Case("layer_norm_backward", shape, dtype), 3 * once,
       [&] { LayerNormBackward(residual, x, gamma, mean, rstd, {}, y, d_gamma, d_beta, stream_); });
  for (const Dropout& d : {Dropout{}, dropout}) {
    const std::string with = d.probability > 0 ? " dropout" : "";
    Time(Case("residual_layer_norm", shape, dtype) + with, 4 * once, [&] {
      ResidualLayerNormForward(x, bias, residual, d, gamma, gamma, 1e-5f, sum, y, mean, rstd,
                               stream_);
    });
    Time(Case("residual_layer_norm_backward", shape, dtype) + with, 4 * once, [&] {
      ResidualLayerNormBackward(residual, x, gamma, mean, rstd, d, y, sum, d_bias, d_gamma, d_beta,
                                stream_);
    });
    Time(Case("dropout_residual", shape, dtype) + with, 3 * once,
         [&] { DropoutResidualForward(x, bias, residual, d, y, stream_); });
    Time(Case("dropout_residual_backward", shape, dtype) + with, 2 * once,
         [&] { DropoutResidualBackward(x, d, y, d_bias, stream_); });
  }
  Time(Case("column_sums", shape, dtype), once, [&] { AccumulateColumnSums(x, d_bias, stream_); });
  Time(Case("add_to", shape, dtype), 3 * once, [&] { AddTo(x, y, stream_); });
  Tensor wide = Make(shape, kF32, 13);
  Time(Case("cast_to_float32", shape, dtype), once + wide.bytes(), [&] { Cast(x, wide, stream_); });
  Time(Case("cast_from_float32", shape, dtype), once + wide.bytes(),
       [&] { Cast(wide, y, stream_); });
}

void Bench::Activations(int64_t rows, int64_t columns, DType dtype) {
  const Shape shape = {rows, columns};
  const Tensor x = Make(shape, dtype, 1);
  const Tensor dy = Make(shape, dtype, 2);
  const Tensor bias = Make({columns}, dtype, 3);
  Tensor y = Make(shape, dtype, 4);
  Tensor d_bias = Make({columns}, kF32, 5);
  const char* const names[] = {"relu", "gelu_erf", "gelu_tanh", "tanh", "swish"};
  for (const Activation activation :
       {Activation::kRelu, Activation::kGeluErf, Activation::kGeluTanh, Activation::kTanh,
        Activation::kSwish}) {
    const std::string name = names[static_cast<int>(activation)];
    Time(Case(("bias_" + name).c_str(), shape, dtype), 2 * x.bytes(),
         [&] { BiasActivationForward(x, bias, activation, {}, y, stream_); });
    Time(Case(("bias_" + name + "_backward").c_str(), shape, dtype), 3 * x.bytes(),
         [&] { BiasActivationBackward(dy, x, bias, activation, {}, y, d_bias, stream_); });
  }
  const Tensor halves = Make({rows, 2 * columns}, dtype, 6);
  Tensor d_halves = Make({rows, 2 * columns}, dtype, 7);
  Time(Case("gated_gelu_erf", shape, dtype), 3 * x.bytes(),
       [&] { GatedActivationForward(halves, Activation::kGeluErf, {}, y, stream_); });
  Time(Case("gated_gelu_erf_backward", shape, dtype), 5 * x.bytes(),
       [&] { GatedActivationBackward(dy, halves, Activation::kGeluErf, {}, d_halves, stream_); });
  Time(Case("relu_backward_from_output", shape, dtype), 3 * x.bytes(),
       [&] { ReluBackwardFromOutput(dy, x, {}, y, d_bias, stream_); });
}

void Bench::Embeddings(int64_t rows, int64_t columns, DType dtype) {
  const Shape shape = {rows, columns};
  const Tensor table = Make({8000, columns}, dtype, 1);
  const Tensor positions = Make({256, columns}, dtype, 2);
  const Tensor ids = Ids(rows, 8000);
  const Tensor position_ids = Ids(rows, 256);
  const EmbeddingOptions options = {.scale = 16.0f, .dropout = {0.1f, {.seed = 3}}};
  Tensor out = Make(shape, dtype, 4);
  Tensor d_table = Make({8000, columns}, kF32, 5);
  Tensor absent;
  Time(Case("embedding", shape, dtype), 3 * out.bytes(),
       [&] { EmbeddingForward(ids, position_ids, table, positions, options, out, stream_); });
  const size_t row_bytes = static_cast<size_t>(2 * rows * columns) * sizeof(float);
  Time(Case("embedding_backward", shape, dtype), out.bytes() + row_bytes,
       [&] { EmbeddingBackward(out, ids, position_ids, options, d_table, absent, stream_); });
}

void Bench::Losses(int64_t rows, int64_t classes, DType dtype) {
  const Shape shape = {rows, classes};
  const Tensor logits = Make(shape, dtype, 1);
  const Tensor targets = Ids(rows, static_cast<uint32_t>(classes));
  Tensor loss = Make({rows}, kF32, 2);
  Tensor nll = Make({rows}, kF32, 3);
  Tensor log_sum_exp = Make({rows}, kF32, 4);
  Tensor scale = Make({1}, kF32, 5);
  Tensor d_logits = Make(shape, dtype, 6);
  Tensor ids = Ids(rows, 8);
  const CrossEntropyOptions options = {.label_smoothing = 0.1f};
  Time(Case("cross_entropy", shape, dtype), logits.bytes(),
       [&] { CrossEntropyForward(logits, targets, options, loss, nll, log_sum_exp, stream_); });
  Time(Case("cross_entropy_backward", shape, dtype), 2 * logits.bytes(), [&] {
    CrossEntropyBackward(logits, targets, log_sum_exp, options, scale, d_logits, stream_);
  });
  Time(Case("arg_max", shape, dtype), logits.bytes(), [&] { ArgMax(logits, ids, stream_); });
  if (dtype != kF32) return;
  Time(Case("log_softmax", shape, dtype), 2 * logits.bytes(),
       [&] { LogSoftmax(logits, d_logits, stream_); });
}

void Bench::Flat(int64_t n) {
  const Tensor g = Make({n}, kF32, 1);
  const Tensor step = Empty(*arena_, {AdamStep::kValues}, kF32);
  const AdamStep values;
  CopyToDevice(step.raw(), &values, sizeof(values), stream_);
  const Tensor decay = Make({1}, kF32, 2);
  Tensor w = Make({n}, kF32, 3);
  Tensor m = Make({n}, kF32, 4);
  Tensor v = Make({n}, kF32, 5);
  Scale(v, 0.0f, stream_);
  Tensor copy = Make({n}, DType::kBFloat16, 6);
  Tensor absent;
  Tensor squares = Empty(*arena_, {2}, DType::kFloat64);
  const std::string size = std::string(" [").append(std::to_string(n)).append("]");
  Time("adam" + size, 7 * g.bytes(), [&] { AdamUpdate(g, step, {}, w, m, v, absent, stream_); });
  Time("adam with bfloat16 copy" + size, 7 * g.bytes() + copy.bytes(),
       [&] { AdamUpdate(g, step, {}, w, m, v, copy, stream_); });
  Time("sum_of_squares" + size, g.bytes(), [&] { SumOfSquares(g, squares, stream_); });
  Time("moving_average" + size, 3 * g.bytes(), [&] { MovingAverage(g, decay, w, stream_); });
  Time("zero" + size, g.bytes(), [&] { Zero(w, stream_); });
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) {
  dtrain::Bench bench(argc > 1 ? argv[1] : "");
  std::printf("kernels: %s; columns: 1 thread, 2 threads\n",
              std::string(dtrain::CpuIsaName(dtrain::BestCpuIsa())).c_str());
  for (const dtrain::DType dtype : {dtrain::DType::kFloat32, dtrain::DType::kBFloat16}) {
    for (const int64_t columns : {256, 1024}) {
      bench.Rows(2048, columns, dtype);
      bench.Activations(2048, columns, dtype);
      bench.Embeddings(2048, columns, dtype);
    }
    bench.Losses(2048, 8000, dtype);
  }
  bench.Flat(10'000'000);
  return 0;
}
