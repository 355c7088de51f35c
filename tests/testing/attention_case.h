// attention_case.h - an attention problem as tensors and in double, for tests of its kernels.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_ATTENTION_CASE_H_
#define DTRAIN_TESTS_TESTING_ATTENTION_CASE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/ops/attention.h"
#include "testing/op_cases.h"
#include "testing/random_values.h"
#include "testing/reference/attention_reference.h"

namespace dtrain::testing {

using Lengths = std::vector<int32_t>;

inline Sequences Pack(const Lengths& lengths) {
  std::vector<int32_t> offsets = {0};
  for (const int32_t length : lengths) offsets.push_back(offsets.back() + length);
  return Sequences(offsets);
}

struct AttentionCase {
  std::string name;
  Lengths queries, keys;
  int num_heads = 1;
  int64_t head_dim = 16;
  bool causal = false;
  float dropout = 0.0f;
  float scale = 0.0f;
  int64_t padding = 0;  // elements between the rows of the projection
  int window = 0;
};

// A problem in a type: rows lie in wider storage ([q | k | v] as a fused projection leaves them
// when the lengths agree) and the same numbers in double.
struct AttentionFixture {
  AttentionFixture(const AttentionCase& test, DType dtype, double magnitude = 2.0)
      : hidden(test.num_heads * test.head_dim) {
    problem.queries = Pack(test.queries);
    problem.keys = Pack(test.keys);
    problem.head_dim = test.head_dim;
    problem.options.num_heads = test.num_heads;
    problem.options.causal = test.causal;
    problem.options.window = test.window;
    problem.options.scale = test.scale;
    problem.options.dropout = {test.dropout, {.seed = 11, .step = 3, .site = 7}};
    const int64_t nq = problem.queries.tokens();
    const int64_t nk = problem.keys.tokens();
    const int64_t width = 3 * hidden + test.padding;
    q_store = Random({nq, width}, dtype, 1, -magnitude, magnitude);
    kv_store = Random({nk, width}, dtype, 2, -magnitude, magnitude);
    d_out = Random({nq, hidden}, dtype, 3, -1.0, 1.0);
    out = Filled({nq, hidden}, dtype, 77.0);
    log_sum_exp = Filled({nq, test.num_heads}, DType::kFloat32, 77.0);
    dq_store = Filled({nq, width}, dtype, 77.0);
    dkv_store = Filled({nk, width}, dtype, 77.0);
    dq = Part(dq_store, 0);
    dk = Part(dkv_store, 1);
    dv = Part(dkv_store, 2);
    problem.q = ValuesOf(Part(q_store, 0));
    problem.k = ValuesOf(Part(kv_store, 1));
    problem.v = ValuesOf(Part(kv_store, 2));
  }

  Tensor Part(const Tensor& store, int64_t part) const {
    return store.Columns(part * hidden, (part + 1) * hidden);
  }
  AttentionSaved Saved() const {
    return {Part(q_store, 0), Part(kv_store, 1), Part(kv_store, 2), out, log_sum_exp};
  }
  void Forward() {
    AttentionSaved x = Saved();
    Stream stream(TestDevice());
    AttentionForward(x.q, x.k, x.v, problem.queries, problem.keys, problem.options, x.out,
                     x.log_sum_exp, stream);
    stream.Synchronize();
  }
  void Backward() {
    Stream stream(TestDevice());
    AttentionBackward(d_out, Saved(), problem.queries, problem.keys, problem.options, dq, dk, dv,
                      stream);
    stream.Synchronize();
  }

  int64_t hidden;
  AttentionProblem problem;
  Tensor q_store, kv_store, d_out, out, log_sum_exp, dq_store, dkv_store;
  Tensor dq, dk, dv;
};

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_ATTENTION_CASE_H_
