// seq2seq_costs_test.cc - counted costs against real models and against hand-made sums.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/seq2seq_costs.h"

#include <vector>

#include "testing/activation_peak.h"
#include "testing/catch.h"
#include "testing/test_device.h"
#include "testing/translation_batches.h"

namespace dtrain {
namespace {

using testing::Pack;
using testing::RandomPairs;

Seq2SeqOptions SmallOptions() {
  return {.vocab_size = 97,
          .encoder_layers = 5,
          .decoder_layers = 4,
          .hidden_size = 32,
          .ffn_size = 80,
          .num_heads = 4,
          .max_positions = 64};
}

// Elsewhere the work is emulated, and sizes are small.
bool OnCpu() { return testing::TestDevice().type == DeviceType::kCpu; }

// Bytes that a real forward and backward take, or an evaluation, and the batch they were for.
int64_t MeasuredPeak(const Seq2SeqOptions& options, const ActivationOptions& activations,
                     int sentences, Seq2SeqBatch& batch) {
  const auto pairs = RandomPairs(sentences, OnCpu() ? 24 : 5, options.vocab_size, 5);
  const TranslationBatch packed = Pack(pairs, 0, pairs.size(), options.pad_id());
  batch.source_tokens = packed.source.tokens();
  batch.target_tokens = packed.target.tokens();
  batch.source_length = static_cast<double>(batch.source_tokens) / sentences;
  batch.target_length = static_cast<double>(batch.target_tokens) / sentences;
  Seq2SeqTransformer model(options);
  return testing::MeasuredPeak<std::vector<int32_t>>(model, activations, packed);
}

std::vector<ActivationOptions> Policies() {
  std::vector<ActivationOptions> policies;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kCheap, Recompute::kFull}) {
    policies.push_back({.recompute = recompute});
  }
  for (const int every : OnCpu() ? std::vector<int>{1, 2, 3, 5, 9} : std::vector<int>{3}) {
    policies.push_back({.recompute = Recompute::kEveryK, .recompute_every = every});
  }
  policies.push_back({.training = false});
  return policies;
}

TEST_CASE("planned activations are what a forward and backward take") {
  for (const bool pre_norm : {false, true}) {
    for (const Activation activation : {Activation::kRelu, Activation::kGeluErf}) {
      for (const float dropout :
           OnCpu() ? std::vector<float>{0.0f, 0.1f} : std::vector<float>{0.1f}) {
        for (ActivationOptions policy : Policies()) {
          for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
            if (!OnCpu() && dtype == DType::kFloat32) continue;
            Seq2SeqOptions options = SmallOptions();
            options.pre_norm = pre_norm;
            options.activation = activation;
            options.dropout = dropout;
            policy.compute_type = dtype;
            policy.device = testing::TestDevice().type;
            Seq2SeqBatch batch;
            const int64_t measured = MeasuredPeak(options, policy, OnCpu() ? 8 : 2, batch);
            INFO("pre_norm " << pre_norm << ", activation " << static_cast<int>(activation)
                             << ", dropout " << dropout << ", recompute "
                             << static_cast<int>(policy.recompute) << " every "
                             << policy.recompute_every << ", training " << policy.training << ", "
                             << Name(dtype));
            CHECK(PeakActivationBytes(options, batch, policy) == measured);
          }
        }
      }
    }
  }
}

TEST_CASE("a vocabulary that needs several slices of logits is planned to the byte") {
  Seq2SeqOptions options = SmallOptions();
  options.encoder_layers = options.decoder_layers = 1;
  options.vocab_size = 40000;
  Seq2SeqBatch batch;
  const ActivationOptions policy{.device = testing::TestDevice().type};
  const int64_t measured = MeasuredPeak(options, policy, OnCpu() ? 24 : 8, batch);
  ActivationOptions evaluation = policy;
  evaluation.training = false;
  CHECK(PeakActivationBytes(options, batch, evaluation) ==
        MeasuredPeak(options, evaluation, OnCpu() ? 24 : 8, batch));
  if (OnCpu()) {
    CHECK(batch.target_tokens > OutputLoss::SliceRows(options.vocab_size, policy.device));
  }
  CHECK(PeakActivationBytes(options, batch, policy) == measured);
  CHECK(LogitsBytes(options, batch, policy) > measured / 2);
}

TEST_CASE("counted parameters are those of the model") {
  for (const bool pre_norm : {false, true}) {
    for (const bool tie_embeddings : {false, true}) {
      for (const bool tie_output : {false, true}) {
        Seq2SeqOptions options = SmallOptions();
        options.pre_norm = pre_norm;
        options.tie_embeddings = tie_embeddings;
        options.tie_output = tie_output;
        if (!tie_embeddings) options.source_vocab_size = 61;
        for (const bool output_bias : {false, true}) {
          options.output_bias = output_bias;
          Seq2SeqTransformer model(options);
          CHECK(CountParameters(options).total() == model.parameters().num_elements());
        }
      }
    }
  }
}

TEST_CASE("parameters of Transformer base are those of a sum by hand") {
  // Encoder layer: 4 (512^2 + 512) + 2 * 512 * 2048 + 2048 + 512 + 4 * 512 = 3,152,384; decoder
  // layer: 8 (512^2 + 512) + the same feed-forward + 6 * 512 = 4,204,032; table 32768 * 512.
  const ModelParameters base = CountParameters(Seq2SeqOptions());
  CHECK(base.embeddings == 16777216);
  CHECK(base.attention == 6 * 3 * 1050624);
  CHECK(base.feed_forward == 12 * 2099712);
  CHECK(base.layer_norm == 6 * 5 * 1024);
  CHECK(base.output == 0);
  CHECK(base.total() == 16777216 + 6 * 3152384 + 6 * 4204032);
}

TEST_CASE("an encoder layer's FLOPs are those of the usual formula") {
  // BERT-base, 12 layers, one sequence of 128: 12 (24 s h^2 + 4 s^2 h) = 22.35 GFLOP.
  const TransformerLayerOptions layer{.hidden_size = 768, .ffn_size = 3072, .num_heads = 12};
  const double flops = 12 * ForwardFlops(layer, {.tokens = 128, .pairs = 128.0 * 128.0});
  CHECK(flops == Approx(12.0 * (24.0 * 128 * 768 * 768 + 4.0 * 128 * 128 * 768)).epsilon(1e-12));
  CHECK(flops == Approx(22.35e9).epsilon(1e-3));
}

TEST_CASE("a translation model's FLOPs are those of its products, counted by hand") {
  const Seq2SeqOptions options{.vocab_size = 10,
                               .encoder_layers = 2,
                               .decoder_layers = 3,
                               .hidden_size = 4,
                               .ffn_size = 6,
                               .num_heads = 2};
  // Two sentences of 3 source and 5 target tokens.
  const Seq2SeqBatch batch{
      .source_tokens = 6, .target_tokens = 10, .source_length = 3, .target_length = 5};
  // Multiply-adds: 4 projections, then scores and sums over 2 * 3 * 3 pairs, then 2 products.
  const double encoder = 6 * 4 * 16 + 18 * 2 * 4 + 6 * 2 * 24;
  // Causal pairs: 2 (1 + 2 + 3 + 4 + 5); cross: q and output for targets, k and v for sources.
  const double decoder =
      10 * 4 * 16 + 30 * 2 * 4 + (10 * 2 + 6 * 2) * 16 + 30 * 2 * 4 + 10 * 2 * 24;
  const double output = 10 * 4 * 10;
  const ModelFlops none = CountFlops(options, batch, Recompute::kNone);
  CHECK(none.forward == 2.0 * (2 * encoder + 3 * decoder + output));
  CHECK(none.backward == 2.0 * none.forward);
  CHECK(none.recomputed == 0.0);
  CHECK(CountFlops(options, batch, Recompute::kFull).recomputed ==
        2.0 * (2 * encoder + 3 * decoder));
  // Of the decoder's segments 0-1 and 2, the last is kept.
  CHECK(CountFlops(options, batch, Recompute::kEveryK, 2).recomputed ==
        2.0 * (2 * encoder + 2 * decoder));
}

TEST_CASE("the plan is the fastest recomputation that fits") {
  const Seq2SeqOptions options;  // Transformer base
  const Seq2SeqBatch batch;
  const auto peak = [&](Recompute recompute, int every = 2) {
    return PeakActivationBytes(options, batch, {.recompute = recompute, .recompute_every = every});
  };
  const auto plan = [&](int64_t budget) {
    return PlanRecompute(CostsOf(options, batch), {}, budget);
  };
  const int64_t none = peak(Recompute::kNone);
  const int64_t cheap = peak(Recompute::kCheap);
  REQUIRE(cheap < none);
  CHECK(plan(none).recompute == Recompute::kNone);
  CHECK(plan(none).peak_bytes == none);
  CHECK(plan(none - 1).recompute == Recompute::kCheap);
  int64_t budget = cheap - 1;
  double flops = 0.0;
  while (true) {  // ever smaller budgets take ever more time
    const RecomputePlan next = plan(budget);
    if (!next.fits) {
      CHECK(next.peak_bytes > budget);
      CHECK(next.peak_bytes < cheap);
      break;
    }
    CHECK(next.peak_bytes <= budget);
    CHECK(next.recomputed_flops >= flops);
    CHECK(next.recomputed_flops > 0.0);
    flops = next.recomputed_flops;
    budget = next.peak_bytes - 1;
  }
}

}  // namespace
}  // namespace dtrain
