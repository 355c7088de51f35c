// linear_activation_case.h - one linear layer with activation, its tensors and its reference.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_LINEAR_ACTIVATION_CASE_H_
#define DTRAIN_TESTS_TESTING_LINEAR_ACTIVATION_CASE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "dtrain/ops/linear_activation.h"
#include "testing/op_cases.h"
#include "testing/reference/activation.h"
#include "testing/reference/dropout.h"

namespace dtrain::testing {

struct LinearActivationCase {
  int64_t rows = 33, in = 31, out = 40, next = 24;
  DType dtype = DType::kFloat32;
  LinearActivationOptions options = {};
  int64_t bias_offset = 0;  // elements by which the bias lies behind aligned memory
  bool has_bias = true;
};

struct Operands {
  explicit Operands(const LinearActivationCase& test)
      : x(Random({test.rows, test.in}, test.dtype, 1, -1.0, 1.0)),
        weight(Random({test.out, test.in}, test.dtype, 2, -0.5, 0.5)),
        bias(Random({test.bias_offset + test.out}, test.dtype, 3)
                 .Rows(test.bias_offset, test.bias_offset + test.out)),
        dy(Random({test.rows, test.next}, test.dtype, 4, -1.0, 1.0)),
        next_weight(Random({test.next, test.out}, test.dtype, 5, -0.5, 0.5)),
        d_before(Filled({test.rows, test.out}, test.dtype, 0.0)),
        d_bias(Filled({test.out}, DType::kFloat32, 1.0)) {
    if (!test.has_bias) bias = d_bias = Tensor();
    const Shape shape = {test.rows, test.out};
    if (test.options.activation != Activation::kRelu) {
      saved.before = Filled(shape, test.dtype, 0.0);
    }
    saved.after = Filled(shape, test.dtype, 0.0);
    const int64_t mask = ActivationMaskBytes(test.options, test.out, test.dtype, TestDevice());
    if (mask > 0) saved.mask = Empty(TestArena(), {test.rows, mask}, DType::kUint8);
  }

  Tensor x, weight, bias, dy, next_weight;
  LinearActivationSaved saved;
  Tensor d_before, d_bias;  // d_bias starts at 1
};

// c[rows, columns] = a[rows, depth] b, with b: [columns, depth] or [depth, columns].
inline Values Product(const Values& a, const Values& b, int64_t rows, int64_t depth,
                      bool transpose_b) {
  const auto count = static_cast<int64_t>(b.size()) / depth;
  Values c(static_cast<size_t>(rows * count));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < count; ++j) {
      double sum = 0.0;
      for (int64_t p = 0; p < depth; ++p) {
        sum += a[static_cast<size_t>(r * depth + p)] *
               b[static_cast<size_t>(transpose_b ? j * depth + p : p * count + j)];
      }
      c[static_cast<size_t>(r * count + j)] = sum;
    }
  }
  return c;
}

// Largest differences of a run from the reference, in units of what rounding explains.
struct Errors {
  double after = 0.0, d_before = 0.0, d_bias = 0.0;
  double largest() const { return std::max({after, d_before, d_bias}); }
};

inline Errors ErrorsOf(const LinearActivationCase& test) {
  Operands x(test);
  Stream stream(TestDevice());
  LinearActivationForward(x.x, x.weight, x.bias, test.options, x.saved, stream);
  LinearActivationBackward(x.dy, x.next_weight, x.bias, test.options, x.saved, x.d_before, x.d_bias,
                           stream);
  const Values bias = test.has_bias ? ValuesOf(x.bias) : Values(static_cast<size_t>(test.out), 0.0);
  Values before = Product(ValuesOf(x.x), ValuesOf(x.weight), test.rows, test.in, true);
  Values after = before;
  Values d_before = Product(ValuesOf(x.dy), ValuesOf(x.next_weight), test.rows, test.next, false);
  Values magnitudes(bias.size());
  for (size_t e = 0; e < after.size(); ++e) {
    const double kept = reference::DropoutFactor(test.options.dropout, e);
    before[e] += bias[e % bias.size()];
    after[e] = kept * reference::Activate(test.options.activation, before[e]);
    d_before[e] *= kept * reference::ActivateDerivative(test.options.activation, before[e]);
    magnitudes[e % bias.size()] += std::abs(d_before[e]);
  }
  const double unit = test.dtype == DType::kFloat32 ? 2e-5 : 2.0 * ToleranceOf(test.dtype);
  // Where relu's input is within rounding of 0, either side is right.
  if (test.options.activation == Activation::kRelu) {
    const Values actual = ValuesOf(x.d_before);
    for (size_t e = 0; e < d_before.size(); ++e) {
      if (std::abs(before[e]) < unit) d_before[e] = actual[e];
    }
  }
  Errors errors{.after = Difference(x.saved.after, after) / unit,
                .d_before = Difference(x.d_before, d_before) / unit};
  if (!test.has_bias) return errors;
  const Values sums = ColumnSums(d_before, test.out);
  const Values d_bias = ValuesOf(x.d_bias);
  for (size_t i = 0; i < sums.size(); ++i) {
    errors.d_bias = std::max(errors.d_bias,
                             std::abs(d_bias[i] - 1.0 - sums[i]) / (unit * (1.0 + magnitudes[i])));
  }
  return errors;
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_LINEAR_ACTIVATION_CASE_H_
