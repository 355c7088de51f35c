// classification_loss_cpu.cc - loss, prediction and gradient of a row, reading the row twice.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/classification_loss_kernel.h"
#include "dtrain/ops/internal/lanes.h"

namespace dtrain::DT_CPU_ISA {
namespace {

// The factors of a row's gradient: its weight and the output weights.
struct RowWeights {
  const float* outputs;  // may be null
  float loss;
  float gradient;

  template <typename Lanes>
  Vec OfOutputs(int64_t c, Lanes lanes) const {
    return outputs == nullptr ? Broadcast(1.0f) : Load(outputs + c, lanes);
  }
};

struct RowOfOutputs {
  const float* logits;
  const float* targets;
  float* probabilities;  // may be null
  float* d_logits;       // may be null
  int64_t outputs;
};

struct RowLoss {
  float weighted;
  float unweighted;
};

RowLoss SoftmaxRow(const RowOfOutputs& row, const RowWeights& weights) {
  Vec max_lanes = Broadcast(-__builtin_inff());
  ForLanes(0, row.outputs, [&](int64_t c, auto lanes) {
    const Vec z = Only(Load(row.logits + c, lanes), lanes, max_lanes);
    max_lanes = max_lanes > z ? max_lanes : z;
  });
  const float max = HorizontalMax(max_lanes);
  const float sum = SumLanes(0, row.outputs, [&](int64_t c, auto lanes) {
    return Only(Exp(Load(row.logits + c, lanes) - max), lanes);
  });
  const float log_sum_exp =
      static_cast<float>(static_cast<double>(max) + __builtin_log(static_cast<double>(sum)));
  const float inverse = 1.0f / sum;
  const bool known = row.targets[0] >= 0.0f;
  const int64_t target = known ? static_cast<int64_t>(row.targets[0]) : 0;
  const float nll = known ? log_sum_exp - row.logits[target] : 0.0f;
  const float of_class = weights.outputs == nullptr ? 1.0f : weights.outputs[target];
  const float factor = known ? weights.gradient * of_class : 0.0f;
  ForLanes(0, row.outputs, [&](int64_t c, auto lanes) {
    const Vec p = Exp(Load(row.logits + c, lanes) - max) * inverse;
    if (row.probabilities != nullptr) Store(row.probabilities + c, p, lanes);
    if (row.d_logits != nullptr) Store(row.d_logits + c, p * factor, lanes);
  });
  if (row.d_logits != nullptr) row.d_logits[target] -= factor;
  return {weights.loss * of_class * nll, nll};
}

// The results for one output; the prediction and the logit may share memory.
struct Output {
  Vec probability, loss, gradient;
};

struct Squared {
  static Output Of(Vec z, Vec y) {
    const Vec d = z - y;
    return {z, d * d, d * 2.0f};
  }
};

// With e = exp(-|z|): log(1 + exp(z)) = max(z, 0) + log(1 + e), and log(1 + e) = 2 atanh(s) with s
// = e / (2 + e) <= 1/3. The series up to s^15 has a relative error below 1e-8.
struct Sigmoid {
  static Output Of(Vec z, Vec y) {
    const Vec e = Exp(z < 0.0f ? z : -z);
    const Vec s = e / (e + 2.0f);
    const Vec q = s * s;
    Vec series = q * (1.0f / 15.0f) + 1.0f / 13.0f;
    series = series * q + 1.0f / 11.0f;
    series = series * q + 1.0f / 9.0f;
    series = series * q + 1.0f / 7.0f;
    series = series * q + 1.0f / 5.0f;
    series = series * q + 1.0f / 3.0f;
    const Vec log1p = s * 2.0f + s * q * series * 2.0f;
    const Vec p = (z < 0.0f ? e : Broadcast(1.0f)) / (e + 1.0f);
    return {p, (z < 0.0f ? Vec{} : z) - z * y + log1p, p - y};
  }
};

template <typename Loss>
RowLoss PointwiseRow(const RowOfOutputs& row, const RowWeights& weights) {
  const float inverse = 1.0f / static_cast<float>(row.outputs);
  Vec weighted{};
  Vec unweighted{};
  ForLanes(0, row.outputs, [&](int64_t c, auto lanes) {
    const Vec z = Load(row.logits + c, lanes);
    const Vec y = Load(row.targets + c, lanes);
    const Vec v = weights.OfOutputs(c, lanes);
    const Output output = Loss::Of(z, y);
    const Vec loss = Only(y == y ? output.loss : Vec{}, lanes);
    weighted += loss * v;
    unweighted += loss;
    if (row.probabilities != nullptr) Store(row.probabilities + c, output.probability, lanes);
    if (row.d_logits == nullptr) return;
    const Vec d = output.gradient * v * (weights.gradient * inverse);
    Store(row.d_logits + c, y == y ? d : Vec{}, lanes);
  });
  return {weights.loss * inverse * HorizontalSum(weighted), inverse * HorizontalSum(unweighted)};
}

RowLoss LossOf(ClassificationLossKind kind, const RowOfOutputs& row, const RowWeights& weights) {
  switch (kind) {
    case ClassificationLossKind::kSoftmax:
      return SoftmaxRow(row, weights);
    case ClassificationLossKind::kMeanSquared:
      return PointwiseRow<Squared>(row, weights);
    case ClassificationLossKind::kSigmoid:
      break;
  }
  return PointwiseRow<Sigmoid>(row, weights);
}

}  // namespace

template <typename T>
void ClassificationLossKernel(const ClassificationLossArgs& args) {
  const int64_t outputs = args.outputs;
  const int64_t targets = args.kind == ClassificationLossKind::kSoftmax ? 1 : outputs;
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const float weight = args.weights == nullptr ? 1.0f : args.weights[r];
    const RowOfOutputs row = {
        .logits = args.logits + r * outputs,
        .targets = args.targets + r * targets,
        .probabilities = args.probabilities == nullptr ? nullptr : args.probabilities + r * outputs,
        .d_logits = args.d_logits == nullptr ? nullptr : args.d_logits + r * outputs,
        .outputs = outputs};
    const RowLoss loss =
        LossOf(args.kind, row,
               {.outputs = args.output_weights, .loss = weight, .gradient = weight * *args.scale});
    args.loss[r] = loss.weighted;
    args.unweighted[r] = loss.unweighted;
  }
}

template void ClassificationLossKernel<float>(const ClassificationLossArgs&);

}  // namespace dtrain::DT_CPU_ISA
