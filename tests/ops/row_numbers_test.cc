// row_numbers_test.cc - dropout of some rows of a batch is what the whole batch has there.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include "dtrain/ops/bias_activation.h"
#include "dtrain/ops/dropout_residual.h"
#include "dtrain/ops/embedding.h"
#include "dtrain/ops/layer_norm.h"
#include "testing/attention_case.h"
#include "testing/catch.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;
constexpr int64_t kRows = 9;
const std::vector<int32_t> kPart = {7, 0, 4, 8};  // in an order of their own
constexpr auto kPartRows = int64_t{4};

// Whole pieces of eight columns, and odd ones.
const int64_t kColumns[] = {64, 264, 33};

Dropout Half() { return {0.5f, {.seed = 3, .step = 5, .site = 7}}; }
Dropout HalfOfPart() {
  Dropout dropout = Half();
  dropout.row_numbers = OnDevice(kPart, {kPartRows});
  return dropout;
}

// The rows `kPart` of x, which has a rank of 1 or 2.
Tensor PartOf(const Tensor& x) {
  const bool is_matrix = x.shape().rank() == 2;
  const int64_t columns = is_matrix ? x.dim(1) : 1;
  const Values all = ValuesOf(x);
  Values values;
  for (const int32_t r : kPart) {
    const auto row = all.begin() + r * columns;
    values.insert(values.end(), row, row + columns);
  }
  return FromValues(is_matrix ? Shape({kPartRows, columns}) : Shape({kPartRows}), x.dtype(),
                    values);
}

Tensor Like(const Tensor& x) { return Filled(x.shape(), x.dtype(), 77.0); }

// Both have elements that are zero and others.
bool HasZeros(const Tensor& x) {
  const Values values = ValuesOf(x);
  const auto zeros = std::count(values.begin(), values.end(), 0.0);
  return zeros > 0 && zeros < static_cast<ptrdiff_t>(values.size());
}

TEST_CASE("the end of a pre-norm sublayer drops a row by its number") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  Stream stream(TestDevice());
  for (const int64_t columns : kColumns) {
    INFO(Name(dtype) << ", " << columns << " columns");
    const Tensor x = Random({kRows, columns}, dtype, 1);
    Tensor none;
    Tensor all = Like(x);
    DropoutResidualForward(x, none, none, Half(), all, stream);
    Tensor part = Like(PartOf(x));
    DropoutResidualForward(PartOf(x), none, none, HalfOfPart(), part, stream);
    CHECK(HasZeros(part));
    CHECK(ValuesOf(part) == ValuesOf(PartOf(all)));
    DropoutResidualBackward(x, Half(), all, none, stream);
    DropoutResidualBackward(PartOf(x), HalfOfPart(), part, none, stream);
    CHECK(ValuesOf(part) == ValuesOf(PartOf(all)));
  }
}

TEST_CASE("an activation drops a row by its number") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  Stream stream(TestDevice());
  for (const int64_t columns : kColumns) {
    INFO(Name(dtype) << ", " << columns << " columns");
    const Tensor x = Random({kRows, columns}, dtype, 1);
    const Tensor dy = Random({kRows, columns}, dtype, 2);
    const Tensor bias = Random({columns}, dtype, 3);
    Tensor none;
    Tensor all = Like(x);
    Tensor part = Like(PartOf(x));
    BiasActivationForward(x, bias, Activation::kGeluErf, Half(), all, stream);
    BiasActivationForward(PartOf(x), bias, Activation::kGeluErf, HalfOfPart(), part, stream);
    CHECK(HasZeros(part));
    CHECK(ValuesOf(part) == ValuesOf(PartOf(all)));
    BiasActivationBackward(dy, x, bias, Activation::kGeluErf, Half(), all, none, stream);
    BiasActivationBackward(PartOf(dy), PartOf(x), bias, Activation::kGeluErf, HalfOfPart(), part,
                           none, stream);
    CHECK(HasZeros(part));
    CHECK(ValuesOf(part) == ValuesOf(PartOf(all)));
  }
}

TEST_CASE("the end of a post-norm sublayer drops a row by its number") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  Stream stream(TestDevice());
  for (const int64_t columns : kColumns) {
    INFO(Name(dtype) << ", " << columns << " columns");
    const Tensor x = Random({kRows, columns}, dtype, 1);
    const Tensor residual = Random({kRows, columns}, dtype, 2);
    const Tensor dy = Random({kRows, columns}, dtype, 3);
    const Tensor gamma = Random({columns}, kF32, 4);
    const Tensor beta = Random({columns}, kF32, 5);
    struct Result {
      Tensor sum, y, mean, rstd, d_sum, dx;
    };
    const auto run = [&](const Tensor& of_x, const Tensor& of_residual, const Tensor& of_dy,
                         const Dropout& dropout) {
      const int64_t rows = of_x.dim(0);
      Result result{Like(of_x), Like(of_x), Filled({rows}, kF32, 0), Filled({rows}, kF32, 0),
                    Like(of_x), Like(of_x)};
      Tensor none;
      Tensor d_gamma = Filled({columns}, kF32, 0);
      Tensor d_beta = Filled({columns}, kF32, 0);
      ResidualLayerNormForward(of_x, none, of_residual, dropout, gamma, beta, 1e-5f, result.sum,
                               result.y, result.mean, result.rstd, stream);
      ResidualLayerNormBackward(of_dy, result.sum, gamma, result.mean, result.rstd, dropout,
                                result.d_sum, result.dx, none, d_gamma, d_beta, stream);
      return result;
    };
    const Result all = run(x, residual, dy, Half());
    const Result part = run(PartOf(x), PartOf(residual), PartOf(dy), HalfOfPart());
    CHECK(HasZeros(part.dx));
    CHECK(ValuesOf(part.y) == ValuesOf(PartOf(all.y)));
    CHECK(ValuesOf(part.dx) == ValuesOf(PartOf(all.dx)));
  }
}

TEST_CASE("an embedding drops a row by its number") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  Stream stream(TestDevice());
  for (const int64_t columns : kColumns) {
    INFO(Name(dtype) << ", " << columns << " columns");
    const Tensor table = Random({kRows, columns}, dtype, 1);
    // Row r of the batch is row r of the table.
    std::vector<int32_t> rows(kRows);
    std::iota(rows.begin(), rows.end(), 0);
    const Tensor ids = OnDevice(rows, {kRows});
    const Tensor part_ids = OnDevice(kPart, {kPartRows});
    Tensor none;
    Tensor all = Like(table);
    Tensor part = Like(PartOf(table));
    EmbeddingForward(ids, none, table, none, {.dropout = Half()}, all, stream);
    EmbeddingForward(part_ids, none, table, none, {.dropout = HalfOfPart()}, part, stream);
    CHECK(HasZeros(part));
    CHECK(ValuesOf(part) == ValuesOf(PartOf(all)));
    const Tensor d_out = Random({kRows, columns}, dtype, 2);
    Tensor d_all = Filled({kRows, columns}, kF32, 0);
    Tensor d_part = Filled({kRows, columns}, kF32, 0);
    EmbeddingBackward(d_out, ids, none, {.dropout = Half()}, d_all, none, stream);
    EmbeddingBackward(PartOf(d_out), part_ids, none, {.dropout = HalfOfPart()}, d_part, none,
                      stream);
    CHECK(HasZeros(PartOf(d_part)));
    CHECK(ValuesOf(PartOf(d_part)) == ValuesOf(PartOf(d_all)));
  }
}

// Sequences [begin, end) of a batch of them, with the numbers they have in it.
struct Slice {
  Slice(const AttentionFixture& whole, const std::vector<int32_t>& lengths, size_t begin,
        size_t end) {
    const Sequences all = Pack(lengths);
    const auto first = all.begin(static_cast<int64_t>(begin));
    const auto last = all.end(static_cast<int64_t>(end) - 1);
    const auto rows = [&](const Tensor& all_rows) { return Copy(all_rows.Rows(first, last)); };
    const AttentionSaved saved = whole.Saved();
    x = {rows(saved.q), rows(saved.k), rows(saved.v), Like(rows(saved.out)),
         Like(rows(saved.log_sum_exp))};
    d_out = rows(whole.d_out);
    sequences = Pack({lengths.begin() + static_cast<ptrdiff_t>(begin),
                      lengths.begin() + static_cast<ptrdiff_t>(end)});
    options = whole.problem.options;
    std::vector<int32_t> numbers(static_cast<size_t>(last - first));
    std::iota(numbers.begin(), numbers.end(), first);
    options.dropout.row_numbers = OnDevice(numbers, {last - first});
    dq = Like(x.q);
    dk = Like(x.k);
    dv = Like(x.v);
    Stream stream(TestDevice());
    AttentionForward(x.q, x.k, x.v, sequences, sequences, options, x.out, x.log_sum_exp, stream);
    AttentionBackward(d_out, x, sequences, sequences, options, dq, dk, dv, stream);
    of_out = ValuesOf(rows(whole.out));
    of_dq = ValuesOf(rows(whole.dq));
    of_dk = ValuesOf(rows(whole.dk));
    of_dv = ValuesOf(rows(whole.dv));
  }
  AttentionSaved x;
  Tensor d_out, dq, dk, dv;
  Sequences sequences;
  AttentionOptions options;
  Values of_out, of_dq, of_dk, of_dv;  // the whole batch's
};

TEST_CASE("attention drops probabilities by the numbers of queries, whatever is beside them") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const bool on_cpu = TestDevice().type == DeviceType::kCpu;
  for (const int64_t head_dim : {64, 24}) {
    INFO(Name(dtype) << ", heads of " << head_dim);
    // The longest one is in one part alone.
    const std::vector<int32_t> lengths = {5, 1, on_cpu ? 150 : 70, 17};
    AttentionFixture whole({.name = "",
                            .queries = lengths,
                            .keys = lengths,
                            .num_heads = 2,
                            .head_dim = head_dim,
                            .dropout = 0.3f},
                           dtype, 1.0);
    whole.Forward();
    whole.Backward();
    for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 2}, {1, 4}, {3, 4}}) {
      INFO("sequences from " << begin << " to " << end);
      const Slice slice(whole, lengths, begin, end);
      CHECK(Difference(slice.x.out, slice.of_out) < 1e-6);
      CHECK(Difference(slice.dq, slice.of_dq) < 1e-6);
      CHECK(Difference(slice.dk, slice.of_dk) < 1e-6);
      CHECK(Difference(slice.dv, slice.of_dv) < 1e-6);
    }
  }
}

TEST_CASE("row numbers of another count are refused by name") {
  Stream stream(TestDevice());
  const Tensor x = Random({kRows, 8}, kF32, 1);
  Tensor out = Like(x);
  Tensor none;
  CHECK_THAT(MessageOf([&] { DropoutResidualForward(x, none, none, HalfOfPart(), out, stream); }),
             Catch::Contains("DropoutResidualForward: row_numbers"));
}

}  // namespace
}  // namespace dtrain
