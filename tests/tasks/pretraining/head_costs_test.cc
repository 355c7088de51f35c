// head_costs_test.cc - counted costs of pre-training against real models and by hand.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/head_costs.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "testing/activation_peak.h"
#include "testing/catch.h"
#include "testing/pretraining_batches.h"
#include "testing/test_device.h"

namespace dtrain {
namespace {

// Elsewhere the work is emulated, and sizes are small.
bool OnCpu() { return testing::TestDevice().type == DeviceType::kCpu; }

BertPretrainingOptions SmallOptions(bool next_sentence) {
  return {.bert = {.vocab_size = 97,
                   .hidden_size = 32,
                   .num_layers = OnCpu() ? 5 : 3,
                   .num_heads = 4,
                   .ffn_size = 80,
                   .max_positions = 64},
          .next_sentence = next_sentence};
}

// Bytes that a real forward and backward take, or an evaluation.
int64_t MeasuredPeak(const BertPretrainingOptions& options, const ActivationOptions& activations,
                     const PretrainingBatch& batch) {
  BertPretraining model(options);
  return testing::MeasuredPeak<PretrainingOutputs>(model, activations, batch);
}

// Random texts whose first tokens are not masked, as those of a vocabulary are not.
PretrainingBatch MaskedTexts(const BertPretrainingOptions& options, int64_t texts, int max_length) {
  PretrainingBatch batch = testing::RandomMaskedTexts(options, 0, texts, max_length, 1);
  const std::vector<int32_t> rows = std::exchange(batch.masked_rows, {});
  const std::vector<int32_t> ids = std::exchange(batch.masked_ids, {});
  const std::span<const int32_t> firsts = batch.sequences.offsets();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (std::binary_search(firsts.begin(), firsts.end(), rows[i])) continue;
    batch.masked_rows.push_back(rows[i]);
    batch.masked_ids.push_back(ids[i]);
  }
  return batch;
}

std::vector<ActivationOptions> Policies() {
  std::vector<ActivationOptions> policies;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kCheap, Recompute::kFull}) {
    policies.push_back({.recompute = recompute});
  }
  policies.push_back({.recompute = Recompute::kEveryK, .recompute_every = 2});
  policies.push_back({.training = false});
  return policies;
}

void CheckPeaks(const BertPretrainingOptions& options, const PretrainingBatch& batch) {
  const MaskedBertBatch counted{.text = {.tokens = batch.sequences.tokens(), .texts = batch.size()},
                                .masked = batch.masked()};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (ActivationOptions activations : Policies()) {
      activations.compute_type = dtype;
      activations.device = testing::TestDevice().type;
      INFO("next sentence " << options.next_sentence << ", dropout " << options.bert.dropout << ", "
                            << Name(dtype) << ", recompute "
                            << static_cast<int>(activations.recompute) << ", training "
                            << activations.training);
      CHECK(PeakActivationBytes(options, counted, activations) ==
            MeasuredPeak(options, activations, batch));
    }
  }
}

TEST_CASE("counted costs of guessing in relatives of BERT are those of the arena") {
  BertPretrainingOptions options = SmallOptions(/*next_sentence=*/false);
  if (GENERATE(false, true)) {
    options.bert.family = &ElectraFamily();
    options.bert.embedding_size = 24;
  } else {
    options.bert.family = &ModernBertFamily();
    options.bert.type_vocab_size = 0;
    options.bert.local_attention = 8;
  }
  INFO(options.bert.family->title);
  const PretrainingBatch batch = MaskedTexts(options, 5, 12);
  const MaskedBertBatch counted{.text = {.tokens = batch.sequences.tokens(), .texts = batch.size()},
                                .masked = batch.masked()};
  BertPretraining model(options);
  CHECK(CountParameters(options).total() == model.parameters().num_elements());
  for (ActivationOptions activations : Policies()) {
    activations.device = testing::TestDevice().type;
    INFO("recompute " << static_cast<int>(activations.recompute) << ", training "
                      << activations.training);
    CHECK(PeakActivationBytes(options, counted, activations) ==
          MeasuredPeak(options, activations, batch));
  }
}

TEST_CASE("counted activations of pre-training are those of the arena, whatever is recomputed") {
  for (const bool next_sentence : {true, false}) {
    for (const float dropout : {0.0f, 0.1f}) {
      BertPretrainingOptions options = SmallOptions(next_sentence);
      options.bert.dropout = dropout;
      CheckPeaks(options, MaskedTexts(options, OnCpu() ? 9 : 3, OnCpu() ? 30 : 6));
    }
  }
}

TEST_CASE("counted activations are right where the logits are the most of them") {
  BertPretrainingOptions options = SmallOptions(true);
  options.bert.vocab_size = OnCpu() ? 30000 : 3000;
  options.bert.num_layers = 1;
  CheckPeaks(options, MaskedTexts(options, OnCpu() ? 20 : 3, 30));
}

TEST_CASE("the parameters of pre-training are counted to the last one") {
  for (const bool next_sentence : {true, false}) {
    const BertPretrainingOptions options = SmallOptions(next_sentence);
    BertPretraining model(options);
    CHECK(CountParameters(options).total() == model.parameters().num_elements());
  }
  // Hugging Face's BertForPreTraining and BertForMaskedLM of bert-base-uncased.
  CHECK(CountParameters(BertPretrainingOptions{.bert = {}}).total() == 110106428);
  CHECK(CountParameters(BertPretrainingOptions{.bert = {}, .next_sentence = false}).total() ==
        109514298);
}

TEST_CASE("FLOPs of pre-training are those of its products, counted by hand") {
  BertPretrainingOptions options{
      .bert = {.vocab_size = 50, .hidden_size = 4, .num_layers = 3, .num_heads = 2, .ffn_size = 6}};
  const MaskedBertBatch batch{.text = {.tokens = 6, .texts = 2}, .masked = 3};
  // Multiply-adds: 4 projections, scores and sums over 2 * 3 * 3 pairs, 2 products; then the heads.
  const double layer = 6 * 4 * 16 + 18 * 2 * 4 + 6 * 2 * 24;
  // The last one has keys and values of all tokens, the rest of the 3 masked and the 2 first ones.
  const double last = 6 * 2 * 16 + 5 * 2 * 16 + 15 * 2 * 4 + 5 * 2 * 24;
  const double tokens = 3 * (16 + 200);
  const double pairs = 2 * (16 + 8);
  const ModelFlops none = CountFlops(options, batch, Recompute::kNone);
  CHECK(none.forward == 2.0 * (2 * layer + last + tokens + pairs));
  CHECK(none.backward == 2.0 * none.forward);
  CHECK(CountFlops(options, batch, Recompute::kFull).recomputed == 2.0 * (2 * layer + last));
  options.next_sentence = false;
  CHECK(CountFlops(options, batch, Recompute::kNone).forward == 2.0 * (2 * layer + last + tokens));
}

}  // namespace
}  // namespace dtrain
