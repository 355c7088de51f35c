// costs_test.cc - what attention with a window costs, against counting.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/costs.h"

#include <cstdlib>

#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("pairs of self-attention are those that are counted one by one") {
  for (const int length : {1, 2, 7, 40}) {
    for (const int window : {0, 1, 2, 6, 7, 39, 40, 64}) {
      INFO(length << " tokens, window " << window);
      int pairs = 0;
      for (int query = 0; query < length; ++query) {
        for (int key = 0; key < length; ++key) {
          pairs += window == 0 || std::abs(query - key) <= window ? 1 : 0;
        }
      }
      CHECK(SelfAttentionPairs(length, window) == pairs);
    }
  }
  CHECK(SelfAttentionPairs(5.5) == 5.5 * 5.5);
}

TEST_CASE("a layer's attention with a window costs operations by the window, not by the length") {
  const TransformerLayerOptions layer{.hidden_size = 768, .ffn_size = 1152, .num_heads = 12};
  const auto flops = [&](double length, int window) {
    return ForwardFlops(layer, {.tokens = length, .pairs = SelfAttentionPairs(length, window)}) -
           ForwardFlops(layer, {.tokens = length});
  };
  // Two products of 768 multiply-adds for each pair; 8192 queries see 129 keys, less 64 * 65.
  CHECK(flops(8192, 64) == Approx(4.0 * 768 * (8192 * 129 - 64 * 65)).epsilon(1e-9));
  CHECK(flops(8192, 0) / flops(8192, 64) > 63.0);
}

}  // namespace
}  // namespace dtrain
