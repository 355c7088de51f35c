// kernel_bench_ops.cc - each op with the tensors, the bytes and the operations of a model's step.
// SPDX-License-Identifier: Apache-2.0
//
// Bytes count every operand once, as if it were in no cache before and after.
#include "kernel_bench_ops.h"

#include <numeric>
#include <set>

#include "dtrain/device/copy.h"
#include "dtrain/ops/adam.h"
#include "dtrain/ops/attention.h"
#include "dtrain/ops/attention_engine.h"
#include "dtrain/ops/bias_activation.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/cross_entropy.h"
#include "dtrain/ops/dropout_residual.h"
#include "dtrain/ops/embedding.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/ops/layer_norm.h"
#include "dtrain/ops/reduce.h"

namespace dtrain {
namespace {

// An update that is not skipped; random values would be one that is.
Tensor MakeAdamStep(DeviceMeter& meter, Stream& stream) {
  Tensor tensor = meter.Zeros({AdamStep::kValues});
  const AdamStep step;
  CopyToDevice(tensor.raw(), &step, sizeof(step), stream);
  return tensor;
}

// What an average keeps of itself.
Tensor MakeDecay(DeviceMeter& meter, Stream& stream) {
  Tensor tensor = meter.Zeros({1});
  const float decay = 0.999F;
  CopyToDevice(tensor.raw(), &decay, sizeof(decay), stream);
  return tensor;
}

using Run = DeviceMeter::Run;

constexpr float kEpsilon = 1e-5F;
// As in training: rows have numbers.
Dropout ModelDropout(DeviceMeter& meter, int64_t rows) {
  std::vector<int32_t> numbers(static_cast<size_t>(rows));
  std::iota(numbers.begin(), numbers.end(), 0);
  Dropout dropout = {0.1F, {.seed = 1}};
  dropout.row_numbers = meter.Ids(numbers, {rows});
  return dropout;
}

std::string Size(int64_t count) {
  std::string text(1, ' ');
  text += std::to_string(count);
  return text;
}
std::string Sizes(int64_t rows, int64_t columns) { return Size(rows) + " x" + Size(columns); }

double Product(int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

// What both layer norms read and write beside their rows.
struct NormTensors {
  NormTensors(DeviceMeter& meter, int64_t rows, int64_t hidden)
      : gamma(meter.Random({hidden}, DType::kFloat32)),
        beta(meter.Random({hidden}, DType::kFloat32)),
        mean(meter.Random({rows}, DType::kFloat32)),
        rstd(meter.Random({rows}, DType::kFloat32)),
        d_gamma(meter.Zeros({hidden})),
        d_beta(meter.Zeros({hidden})),
        d_bias(meter.Zeros({hidden})),
        bias(meter.Random({hidden})) {}
  Tensor gamma, beta, mean, rstd, d_gamma, d_beta, d_bias, bias;
};

void BenchLayerNorm(DeviceMeter& meter, int64_t rows, int64_t hidden) {
  Stream& stream = meter.stream();
  const double pass = Product(rows, hidden) * meter.element();
  const std::string sizes = Sizes(rows, hidden);
  const auto matrix = [&] { return meter.Random({rows, hidden}); };
  meter.Measure("layer_norm" + sizes, {0, 2 * pass}, [&]() -> Run {
    return [&stream, x = matrix(), y = matrix(), n = NormTensors(meter, rows, hidden)]() mutable {
      LayerNormForward(x, n.gamma, n.beta, kEpsilon, y, n.mean, n.rstd, stream);
    };
  });
  meter.Measure("layer_norm_backward" + sizes, {0, 3 * pass}, [&]() -> Run {
    return [&stream, dy = matrix(), x = matrix(), dx = matrix(),
            n = NormTensors(meter, rows, hidden)]() mutable {
      LayerNormBackward(dy, x, n.gamma, n.mean, n.rstd, {}, dx, n.d_gamma, n.d_beta, stream);
    };
  });
  const Dropout dropout = ModelDropout(meter, rows);
  meter.Measure("residual_layer_norm" + sizes, {0, 4 * pass}, [&]() -> Run {
    return [&stream, &dropout, x = matrix(), residual = matrix(), sum = matrix(), y = matrix(),
            n = NormTensors(meter, rows, hidden)]() mutable {
      ResidualLayerNormForward(x, n.bias, residual, dropout, n.gamma, n.beta, kEpsilon, sum, y,
                               n.mean, n.rstd, stream);
    };
  });
  meter.Measure("residual_layer_norm_backward" + sizes, {0, 4 * pass}, [&]() -> Run {
    return [&stream, &dropout, dy = matrix(), sum = matrix(), d_sum = matrix(), dx = matrix(),
            n = NormTensors(meter, rows, hidden)]() mutable {
      ResidualLayerNormBackward(dy, sum, n.gamma, n.mean, n.rstd, dropout, d_sum, dx, n.d_bias,
                                n.d_gamma, n.d_beta, stream);
    };
  });
}

void BenchDropoutResidual(DeviceMeter& meter, int64_t rows, int64_t hidden) {
  const Dropout dropout = ModelDropout(meter, rows);
  Stream& stream = meter.stream();
  const double pass = Product(rows, hidden) * meter.element();
  const std::string sizes = Sizes(rows, hidden);
  const auto matrix = [&] { return meter.Random({rows, hidden}); };
  meter.Measure("dropout_residual" + sizes, {0, 3 * pass}, [&]() -> Run {
    return [&stream, &dropout, x = matrix(), residual = matrix(), out = matrix(),
            bias = meter.Random({hidden})]() mutable {
      DropoutResidualForward(x, bias, residual, dropout, out, stream);
    };
  });
  meter.Measure("dropout_residual_backward" + sizes, {0, 2 * pass}, [&]() -> Run {
    return [&stream, &dropout, d_out = matrix(), dx = matrix(),
            d_bias = meter.Zeros({hidden})]() mutable {
      DropoutResidualBackward(d_out, dropout, dx, d_bias, stream);
    };
  });
}

void BenchActivation(DeviceMeter& meter, int64_t rows, int64_t ffn, bool relu) {
  Stream& stream = meter.stream();
  const double pass = Product(rows, ffn) * meter.element();
  const std::string sizes = (relu ? "_relu" : "_gelu_erf") + Sizes(rows, ffn);
  const Activation activation = relu ? Activation::kRelu : Activation::kGeluErf;
  // BERT has no dropout here.
  const Dropout dropout = relu ? ModelDropout(meter, rows) : Dropout{};
  const auto matrix = [&] { return meter.Random({rows, ffn}); };
  meter.Measure("bias" + sizes, {0, 2 * pass}, [&]() -> Run {
    return [&stream, activation, dropout, x = matrix(), y = matrix(),
            bias = meter.Random({ffn})]() mutable {
      BiasActivationForward(x, bias, activation, dropout, y, stream);
    };
  });
  meter.Measure("bias" + sizes + " backward", {0, 3 * pass}, [&]() -> Run {
    return [&stream, activation, dropout, dy = matrix(), x = matrix(), dx = matrix(),
            bias = meter.Random({ffn}), d_bias = meter.Zeros({ffn})]() mutable {
      BiasActivationBackward(dy, x, bias, activation, dropout, dx, d_bias, stream);
    };
  });
}

void BenchAttention(DeviceMeter& meter, const ModelSizes& model, bool causal,
                    const Dropout& dropout, AttentionEngine engine) {
  std::vector<int32_t> offsets = {0};
  for (int64_t i = 0; i < model.sequences; ++i) offsets.push_back(offsets.back() + model.length);
  Sequences packed(offsets);
  // As in training: otherwise every call copies them to the device.
  packed.set_device_offsets(meter.Ids(offsets, {packed.count() + 1}));
  const int64_t tokens = packed.tokens();
  const int64_t hidden = model.hidden;
  const AttentionOptions options = {
      .num_heads = model.num_heads, .causal = causal, .dropout = dropout};
  // A product of queries, keys and head_dim; causal ones count half.
  const double product = 2.0 * Product(tokens, hidden) * model.length * (causal ? 0.5 : 1.0);
  const double rows = Product(tokens, hidden) * meter.element();
  const std::string name = std::string(causal ? "attention_causal" : "attention") + " " +
                           std::to_string(model.sequences) + " x " + std::to_string(model.length) +
                           " x " + std::to_string(hidden) +
                           (engine == AttentionEngine::kWarpgroups ? " warpgroups" : "") +
                           (engine == AttentionEngine::kCudnn ? " cuDNN"
                            : dropout.probability > 0         ? ""
                                                              : " no dropout");
  SetAttentionEngine(engine);
  struct Tensors {
    Tensors(DeviceMeter& meter, int64_t tokens, int64_t hidden, int heads)
        : qkv(meter.Random({tokens, 3 * hidden})),
          d_qkv(meter.Random({tokens, 3 * hidden})),
          d_out(meter.Random({tokens, hidden})),
          dq(d_qkv.Columns(0, hidden)),
          dk(d_qkv.Columns(hidden, 2 * hidden)),
          dv(d_qkv.Columns(2 * hidden, 3 * hidden)),
          saved{qkv.Columns(0, hidden), qkv.Columns(hidden, 2 * hidden),
                qkv.Columns(2 * hidden, 3 * hidden), meter.Random({tokens, hidden}),
                meter.Zeros({tokens, heads})} {}
    Tensor qkv, d_qkv, d_out, dq, dk, dv;
    AttentionSaved saved;
  };
  Stream& stream = meter.stream();
  const auto make = [&] { return Tensors(meter, tokens, hidden, model.num_heads); };
  meter.Measure(name, {2 * product, 4 * rows}, [&]() -> Run {
    return [&stream, &packed, &options, t = make()]() mutable {
      AttentionForward(t.saved.q, t.saved.k, t.saved.v, packed, packed, options, t.saved.out,
                       t.saved.log_sum_exp, stream);
    };
  });
  meter.Measure(name + " backward", {5 * product, 8 * rows}, [&]() -> Run {
    Tensors t = make();
    AttentionForward(t.saved.q, t.saved.k, t.saved.v, packed, packed, options, t.saved.out,
                     t.saved.log_sum_exp, stream);
    return [&stream, &packed, &options, t]() mutable {
      AttentionBackward(t.d_out, t.saved, packed, packed, options, t.dq, t.dk, t.dv, stream);
    };
  });
  SetAttentionEngine(AttentionEngine::kNative);
}

// With dropout as the models have it; then without, where cuDNN's kernels are the yardstick.
void BenchAttentions(DeviceMeter& meter, const ModelSizes& model, bool causal) {
  const Dropout dropout = ModelDropout(meter, model.sequences * model.length);
  BenchAttention(meter, model, causal, dropout, AttentionEngine::kNative);
  if (meter.type() == DType::kFloat32) return;
  BenchAttention(meter, model, causal, {}, AttentionEngine::kNative);
  if (HasWarpgroupAttention(meter.stream().device()) && model.hidden == 64 * model.num_heads) {
    BenchAttention(meter, model, causal, dropout, AttentionEngine::kWarpgroups);
    BenchAttention(meter, model, causal, {}, AttentionEngine::kWarpgroups);
  }
  if (WhyNoCudnn().empty()) BenchAttention(meter, model, causal, {}, AttentionEngine::kCudnn);
}

// A step of beam search: two hypotheses a sentence, half of it translated.
void BenchCachedAttention(DeviceMeter& meter, const ModelSizes& model) {
  const int64_t rows = 2 * model.sequences;
  const int64_t length = model.length / 2;
  const int64_t hidden = model.hidden;
  const double values = 2.0 * Product(rows, hidden) * static_cast<double>(length + 1);
  const std::string name = "cached_attention" + Sizes(rows, length);
  Stream& stream = meter.stream();
  std::vector<int32_t> slots;
  for (int32_t i = 0; i < rows * length; ++i) slots.push_back(i);
  meter.Measure(name, {2 * values, values * meter.element()}, [&]() -> Run {
    return [&stream, heads = model.num_heads, q = meter.Random({rows, hidden}),
            keys = meter.Random({rows * length, hidden}),
            cached = meter.Random({rows * length, hidden}), at = meter.Ids(slots, {rows, length}),
            out = meter.Random({rows, hidden})]() mutable {
      CachedAttention(q, keys, cached, at, heads, out, stream);
    };
  });
}

void BenchLinear(DeviceMeter& meter, const std::string& layer, int64_t rows, int64_t in,
                 int64_t out) {
  Stream& stream = meter.stream();
  const std::string name = "gemm " + layer + Sizes(rows, in) + " x " + std::to_string(out);
  const double flops = 2.0 * Product(rows, in) * static_cast<double>(out);
  const double activations = (Product(rows, in) + Product(rows, out)) * meter.element();
  const double weights = Product(in, out);
  meter.Measure(name, {flops, activations + weights * meter.element()}, [&]() -> Run {
    return [&stream, x = meter.Random({rows, in}), weight = meter.Random({out, in}),
            bias = meter.Random({out}),
            y = meter.Random({rows, out})]() mutable { LinearForward(x, weight, bias, y, stream); };
  });
  meter.Measure(name + " dx", {flops, activations + weights * meter.element()}, [&]() -> Run {
    return [&stream, dy = meter.Random({rows, out}), weight = meter.Random({out, in}),
            dx = meter.Random({rows, in})]() mutable { Gemm(dy, weight, {}, dx, stream); };
  });
  // Gradients of weights are float32. An update's first micro-batch overwrites them.
  meter.Measure(name + " dw", {flops, activations + weights * 4}, [&]() -> Run {
    return
        [&stream, dy = meter.Random({rows, out}), x = meter.Random({rows, in}),
         dw = meter.Zeros({out, in})]() mutable { Gemm(dy, x, {.transpose_a = true}, dw, stream); };
  });
}

void BenchEmbedding(DeviceMeter& meter, const ModelSizes& model) {
  Stream& stream = meter.stream();
  const int64_t tokens = model.sequences * model.length;
  const int64_t hidden = model.hidden;
  const std::vector<int32_t> ids = meter.TextIds(tokens, model.vocab);
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < tokens; ++t) positions.push_back(static_cast<int32_t>(t % model.length));
  const auto distinct = static_cast<int64_t>(std::set<int32_t>(ids.begin(), ids.end()).size());
  const EmbeddingOptions options = {.dropout = ModelDropout(meter, tokens)};
  const std::string sizes = Sizes(tokens, hidden) + ", " + std::to_string(model.vocab);
  const double pass = Product(tokens, hidden) * meter.element();
  const double rows = Product(distinct + model.length, hidden);
  meter.Measure("embedding" + sizes, {0, pass + rows * meter.element()}, [&]() -> Run {
    return [&stream, &options, at = meter.Ids(ids, {tokens}), p = meter.Ids(positions, {tokens}),
            table = meter.Random({model.vocab, hidden}),
            position_table = meter.Random({model.length, hidden}),
            out = meter.Random({tokens, hidden})]() mutable {
      EmbeddingForward(at, p, table, position_table, options, out, stream);
    };
  });
  meter.Measure("embedding_backward" + sizes, {0, pass + rows * 8}, [&]() -> Run {
    return [&stream, &options, at = meter.Ids(ids, {tokens}), p = meter.Ids(positions, {tokens}),
            d_table = meter.Zeros({model.vocab, hidden}),
            d_positions = meter.Zeros({model.length, hidden}),
            d_out = meter.Random({tokens, hidden})]() mutable {
      EmbeddingBackward(d_out, at, p, options, d_table, d_positions, stream);
    };
  });
}

// Logits and their gradient in their place.
void BenchCrossEntropy(DeviceMeter& meter, int64_t rows, int64_t classes, float smoothing) {
  Stream& stream = meter.stream();
  const std::vector<int32_t> ids = meter.TextIds(rows, classes);
  const double pass = Product(rows, classes) * meter.element();
  const std::string sizes = Sizes(rows, classes);
  const CrossEntropyOptions options = {smoothing};
  meter.Measure("cross_entropy" + sizes, {0, pass}, [&]() -> Run {
    return [&stream, options, logits = meter.Random({rows, classes}),
            targets = meter.Ids(ids, {rows}), loss = meter.Zeros({rows}), nll = meter.Zeros({rows}),
            log_sum_exp = meter.Zeros({rows})]() mutable {
      CrossEntropyForward(logits, targets, options, loss, nll, log_sum_exp, stream);
    };
  });
  meter.Measure("cross_entropy_backward" + sizes, {0, 2 * pass}, [&]() -> Run {
    return
        [&stream, options, logits = meter.Random({rows, classes}), targets = meter.Ids(ids, {rows}),
         log_sum_exp = meter.Zeros({rows}), scale = meter.Random({1}, DType::kFloat32)]() mutable {
          CrossEntropyBackward(logits, targets, log_sum_exp, options, scale, logits, stream);
        };
  });
}

// What a step of search does with its logits.
void BenchSearch(DeviceMeter& meter, int64_t rows, int64_t classes) {
  Stream& stream = meter.stream();
  const double elements = Product(rows, classes);
  meter.Measure(
      "log_softmax" + Sizes(rows, classes), {0, elements * (meter.element() + 4)}, [&]() -> Run {
        return [&stream, logits = meter.Random({rows, classes}),
                out = meter.Zeros({rows, classes})]() mutable { LogSoftmax(logits, out, stream); };
      });
  meter.Measure("arg_max" + Sizes(rows, classes), {0, elements * meter.element()}, [&]() -> Run {
    return [&stream, logits = meter.Random({rows, classes}),
            ids = meter.Zeros({rows}, DType::kInt32)]() mutable { ArgMax(logits, ids, stream); };
  });
}

void BenchRowsOfTokens(DeviceMeter& meter, const ModelSizes& model) {
  Stream& stream = meter.stream();
  const int64_t tokens = model.sequences * model.length;
  const int64_t hidden = model.hidden;
  const double pass = Product(tokens, hidden) * meter.element();
  meter.Measure("add_to" + Sizes(tokens, hidden), {0, 3 * pass}, [&]() -> Run {
    return [&stream, x = meter.Random({tokens, hidden}),
            y = meter.Random({tokens, hidden})]() mutable { AddTo(x, y, stream); };
  });
  meter.Measure("column_sums" + Sizes(tokens, 3 * hidden), {0, 3 * pass}, [&]() -> Run {
    return [&stream, x = meter.Random({tokens, 3 * hidden}),
            sums = meter.Zeros({3 * hidden})]() mutable { AccumulateColumnSums(x, sums, stream); };
  });
  // The rows with a loss, evenly spread over the batch.
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < model.loss_rows; ++i) {
    rows.push_back(static_cast<int32_t>(i * tokens / model.loss_rows));
  }
  const double picked = Product(model.loss_rows, hidden) * meter.element();
  const std::string sizes = Sizes(model.loss_rows, hidden);
  meter.Measure("gather_rows" + sizes, {0, 2 * picked}, [&]() -> Run {
    return [&stream, x = meter.Random({tokens, hidden}), at = meter.Ids(rows, {model.loss_rows}),
            out = meter.Random({model.loss_rows, hidden})]() mutable {
      GatherRows(x, at, out, stream);
    };
  });
  meter.Measure("scatter_add_rows" + sizes, {0, 3 * picked}, [&]() -> Run {
    return [&stream, x = meter.Random({model.loss_rows, hidden}),
            at = meter.Ids(rows, {model.loss_rows}),
            out = meter.Random({tokens, hidden})]() mutable { ScatterAddRows(x, at, out, stream); };
  });
}

void BenchParameters(DeviceMeter& meter, int64_t count) {
  Stream& stream = meter.stream();
  const auto n = static_cast<double>(count);
  const std::string size = Size(count);
  const DType half = meter.type() == DType::kFloat32 ? DType::kBFloat16 : meter.type();
  const auto random = [&] { return meter.Random({count}, DType::kFloat32); };
  meter.Measure("cast" + size, {0, 6 * n}, [&]() -> Run {
    return
        [&stream, x = random(), y = meter.Zeros({count}, half)]() mutable { Cast(x, y, stream); };
  });
  meter.Measure("moving_average" + size, {0, 12 * n}, [&]() -> Run {
    return [&stream, x = random(), decay = MakeDecay(meter, stream), average = random()]() mutable {
      MovingAverage(x, decay, average, stream);
    };
  });
  meter.Measure("sum_of_squares" + size, {0, 4 * n}, [&]() -> Run {
    return [&stream, x = random(), out = meter.Zeros({2}, DType::kFloat64)]() mutable {
      SumOfSquares(x, out, stream);
    };
  });
  meter.Measure("adam" + size, {0, 30 * n}, [&]() -> Run {
    return [&stream, gradients = random(), step = MakeAdamStep(meter, stream), weights = random(),
            m = random(), v = meter.Zeros({count}), copy = meter.Zeros({count}, half)]() mutable {
      AdamUpdate(gradients, step, {}, weights, m, v, copy, stream);
    };
  });
}

}  // namespace

const std::vector<ModelSizes>& BenchModels() {
  static const std::vector<ModelSizes> models = {
      {"base", 64, 128, 768, 3072, 12, 30'528, 1'232, 109'500'000, false},
      {"large", 32, 512, 1024, 4096, 16, 30'528, 2'464, 335'000'000, false},
      {"nmt", 128, 32, 512, 2048, 8, 32'768, 4'096, 60'800'000, true},
      {"tiny", 2, 16, 64, 128, 2, 320, 8, 4'000, true}};
  return models;
}

void BenchModelOps(DeviceMeter& meter, const ModelSizes& model) {
  const int64_t tokens = model.sequences * model.length;
  const int64_t hidden = model.hidden;
  BenchEmbedding(meter, model);
  BenchLinear(meter, "qkv", tokens, hidden, 3 * hidden);
  BenchAttentions(meter, model, /*causal=*/false);
  if (model.translates) {
    BenchAttentions(meter, model, /*causal=*/true);
    BenchCachedAttention(meter, model);
  }
  BenchLinear(meter, "out", tokens, hidden, hidden);
  BenchLayerNorm(meter, tokens, hidden);
  BenchDropoutResidual(meter, tokens, hidden);
  BenchLinear(meter, "ffn1", tokens, hidden, model.ffn);
  BenchActivation(meter, tokens, model.ffn, model.translates);
  BenchLinear(meter, "ffn2", tokens, model.ffn, hidden);
  BenchRowsOfTokens(meter, model);
  BenchLinear(meter, "logits", model.loss_rows, hidden, model.vocab);
  BenchCrossEntropy(meter, model.loss_rows, model.vocab, model.translates ? 0.1F : 0.0F);
  if (model.translates) BenchSearch(meter, 2 * model.sequences, model.vocab);
  BenchParameters(meter, model.parameters);
}

}  // namespace dtrain
