// attention_reference.h - attention and its gradients as plain loops in double.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_REFERENCE_ATTENTION_REFERENCE_H_
#define DTRAIN_TESTS_TESTING_REFERENCE_ATTENTION_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/ops/attention.h"
#include "testing/reference/dropout.h"

namespace dtrain {

// q, k, v, d_out: contiguous [tokens, num_heads * head_dim].
struct AttentionProblem {
  Sequences queries, keys;
  int64_t head_dim = 1;
  AttentionOptions options;
  std::vector<double> q, k, v;

  int64_t hidden() const { return head_dim * options.num_heads; }
};

struct AttentionResult {
  std::vector<double> out, log_sum_exp;
};

struct AttentionGradients {
  std::vector<double> dq, dk, dv;
};

namespace reference {

// The factor of the probability of a sequence's query and key: 0 or 1 / (1 - p).
inline double Keep(const AttentionProblem& x, int64_t sequence, int64_t query, int64_t head,
                   int64_t key) {
  if (x.options.dropout.probability == 0.0f) return 1.0;
  const int64_t upper_query = query / 8 % 2;
  const int64_t upper_key = key / 8 % 2;
  const int64_t row = x.queries.begin(sequence) + query - 8 * upper_query;
  const int64_t draw = (row * x.options.num_heads + head) * (1 << 18) + key / 16 * 4 + key % 8 / 2;
  return FactorOfHalf(x.options.dropout,
                      Philox<7>(x.options.dropout.key, static_cast<uint64_t>(draw)),
                      static_cast<uint64_t>(2 * (upper_query + 2 * upper_key) + key % 2));
}

inline double Dot(const std::vector<double>& a, int64_t at_a, const std::vector<double>& b,
                  int64_t at_b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += a[static_cast<size_t>(at_a + i)] * b[static_cast<size_t>(at_b + i)];
  }
  return sum;
}

// Probabilities of one query over keys up to the last one it sees, before dropout, and their
// log_sum_exp. Keys before its window have probability 0.
inline std::vector<double> Probabilities(const AttentionProblem& x, int64_t sequence, int64_t query,
                                         int64_t head, double* log_sum_exp) {
  const int64_t window = x.options.window;
  const int64_t begin = window > 0 ? std::max<int64_t>(0, query - window) : 0;
  const int64_t all = x.keys.length(sequence);
  const int64_t keys = x.options.causal ? query + 1
                       : window > 0     ? std::min(all, query + window + 1)
                                        : all;
  const double scale = x.options.scale != 0.0f ? double{x.options.scale}
                                               : 1.0 / std::sqrt(static_cast<double>(x.head_dim));
  const int64_t at_q = (x.queries.begin(sequence) + query) * x.hidden() + head * x.head_dim;
  std::vector<double> p(static_cast<size_t>(keys), -INFINITY);
  double maximum = -INFINITY;
  for (int64_t j = begin; j < keys; ++j) {
    const int64_t at_k = (x.keys.begin(sequence) + j) * x.hidden() + head * x.head_dim;
    p[static_cast<size_t>(j)] = scale * Dot(x.q, at_q, x.k, at_k, x.head_dim);
    maximum = std::max(maximum, p[static_cast<size_t>(j)]);
  }
  double sum = 0;
  for (double& value : p) sum += std::exp(value - maximum);
  *log_sum_exp = maximum + std::log(sum);
  for (double& value : p) value = std::exp(value - *log_sum_exp);
  return p;
}

}  // namespace reference

inline AttentionResult ReferenceAttention(const AttentionProblem& x) {
  const int64_t heads = x.options.num_heads;
  AttentionResult result;
  result.out.resize(static_cast<size_t>(x.queries.tokens() * x.hidden()));
  result.log_sum_exp.resize(static_cast<size_t>(x.queries.tokens() * heads));
  for (int64_t s = 0; s < x.queries.count(); ++s) {
    for (int64_t i = 0; i < x.queries.length(s); ++i) {
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t token = x.queries.begin(s) + i;
        const auto p = reference::Probabilities(
            x, s, i, h, &result.log_sum_exp[static_cast<size_t>(token * heads + h)]);
        for (size_t j = 0; j < p.size(); ++j) {
          const auto position = static_cast<int64_t>(j);
          const double kept = p[j] * reference::Keep(x, s, i, h, position);
          const int64_t at_v = (x.keys.begin(s) + position) * x.hidden() + h * x.head_dim;
          for (int64_t d = 0; d < x.head_dim; ++d) {
            result.out[static_cast<size_t>(token * x.hidden() + h * x.head_dim + d)] +=
                kept * x.v[static_cast<size_t>(at_v + d)];
          }
        }
      }
    }
  }
  return result;
}

// Gradients of sum(out * d_out).
inline AttentionGradients ReferenceAttentionBackward(const AttentionProblem& x,
                                                     const std::vector<double>& d_out) {
  const int64_t heads = x.options.num_heads;
  const int64_t dim = x.head_dim;
  const double scale =
      x.options.scale != 0.0f ? double{x.options.scale} : 1.0 / std::sqrt(static_cast<double>(dim));
  AttentionGradients g{std::vector<double>(x.q.size()), std::vector<double>(x.k.size()),
                       std::vector<double>(x.v.size())};
  for (int64_t s = 0; s < x.queries.count(); ++s) {
    for (int64_t i = 0; i < x.queries.length(s) * heads; ++i) {
      const int64_t h = i % heads;
      const int64_t token = x.queries.begin(s) + i / heads;
      const int64_t at_q = token * x.hidden() + h * dim;
      double log_sum_exp = 0;
      const auto p = reference::Probabilities(x, s, i / heads, h, &log_sum_exp);
      std::vector<double> dp(p.size());
      double inner = 0;
      for (size_t j = 0; j < p.size(); ++j) {
        const auto position = static_cast<int64_t>(j);
        const int64_t at_k = (x.keys.begin(s) + position) * x.hidden() + h * dim;
        const double keep = reference::Keep(x, s, i / heads, h, position);
        dp[j] = keep * reference::Dot(d_out, at_q, x.v, at_k, dim);
        inner += p[j] * dp[j];
        for (int64_t d = 0; d < dim; ++d) {
          g.dv[static_cast<size_t>(at_k + d)] += p[j] * keep * d_out[static_cast<size_t>(at_q + d)];
        }
      }
      for (size_t j = 0; j < p.size(); ++j) {
        const int64_t at_k = (x.keys.begin(s) + static_cast<int64_t>(j)) * x.hidden() + h * dim;
        const double ds = p[j] * (dp[j] - inner) * scale;
        for (int64_t d = 0; d < dim; ++d) {
          g.dq[static_cast<size_t>(at_q + d)] += ds * x.k[static_cast<size_t>(at_k + d)];
          g.dk[static_cast<size_t>(at_k + d)] += ds * x.q[static_cast<size_t>(at_q + d)];
        }
      }
    }
  }
  return g;
}

}  // namespace dtrain

#endif  // DTRAIN_TESTS_TESTING_REFERENCE_ATTENTION_REFERENCE_H_
