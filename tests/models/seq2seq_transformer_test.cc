// seq2seq_transformer_test.cc - the model against PyTorch's golden values, and its own invariants.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/seq2seq_transformer.h"

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/arena.h"
#include "dtrain/ops/cast.h"
#include "testing/catch.h"
#include "testing/test_device.h"
#include "testing/translation_batches.h"

namespace dtrain {
namespace {

using testing::Pack;
using testing::RandomPairs;

Seq2SeqOptions SmallOptions() {
  return {.vocab_size = 61,
          .encoder_layers = 2,
          .decoder_layers = 2,
          .hidden_size = 32,
          .ffn_size = 48,
          .num_heads = 4,
          .max_positions = 64};
}

struct Pass {
  LossSums sums;
  std::vector<float> gradients;
  size_t peak = 0;
};

// Gradients of one batch from freshly initialised weights.
Pass RunOnce(const Seq2SeqOptions& options, const ContextOptions& context_options,
             const std::vector<testing::SentencePair>& pairs, size_t begin, size_t end) {
  Seq2SeqTransformer model(options);
  model.Allocate(testing::TestDevice(), context_options.compute_type, /*seed=*/3);
  Context ctx(testing::TestDevice(), context_options);
  ctx.set_training(true);
  ctx.set_step(5);
  Pass pass;
  pass.sums = model.Forward(Pack(pairs, begin, end, options.pad_id()), ctx);
  model.Backward(ctx);
  CHECK(ctx.activations().used() == 0);
  pass.peak = ctx.activations().peak();
  pass.gradients = testing::ElementsOf<float>(model.parameters().gradients());
  return pass;
}

TEST_CASE("recomputation gives bit-identical gradients and needs less memory") {
  // Elsewhere the work may be emulated, and sizes are small.
  const bool on_cpu = testing::TestDevice().type == DeviceType::kCpu;
  for (const bool pre_norm : {false, true}) {
    for (const Activation activation : {Activation::kRelu, Activation::kGeluErf}) {
      for (const DType dtype : testing::FloatTypes()) {
        Seq2SeqOptions options = SmallOptions();
        options.encoder_layers = on_cpu ? 3 : 2;
        options.decoder_layers = on_cpu ? 5 : 3;
        options.pre_norm = pre_norm;
        options.activation = activation;
        options.dropout = 0.2f;
        options.attention_dropout = 0.1f;
        options.activation_dropout = 0.1f;
        const auto pairs = RandomPairs(on_cpu ? 6 : 2, on_cpu ? 20 : 8, options.vocab_size, 1);
        const auto run = [&](Recompute recompute, int every = 2) {
          return RunOnce(options,
                         {.compute_type = dtype, .recompute = recompute, .recompute_every = every},
                         pairs, 0, pairs.size());
        };
        const Pass none = run(Recompute::kNone);
        const Pass cheap = run(Recompute::kCheap);
        const Pass full = run(Recompute::kFull);
        for (const int every : on_cpu ? std::vector<int>{1, 2, 3, 7} : std::vector<int>{2}) {
          const Pass segments = run(Recompute::kEveryK, every);
          INFO("every " << every);
          CHECK(none.sums.loss == segments.sums.loss);
          CHECK(none.gradients == segments.gradients);
          CHECK(segments.peak <= none.peak);
        }
        INFO("pre_norm " << pre_norm << ", activation " << static_cast<int>(activation) << ", "
                         << Name(dtype));
        CHECK(none.sums.loss == cheap.sums.loss);
        CHECK(none.gradients == cheap.gradients);
        CHECK(none.gradients == full.gradients);
        CHECK(cheap.peak < none.peak);
        CHECK(full.peak < cheap.peak);
      }
    }
  }
}

TEST_CASE("the gradient of a packed batch is the sum of its sentences' gradients") {
  Seq2SeqOptions options = SmallOptions();
  options.dropout = 0.0f;
  const auto pairs = RandomPairs(5, 20, options.vocab_size, 2);
  const Pass all = RunOnce(options, {}, pairs, 0, 5);
  std::vector<double> sum(all.gradients.size());
  double loss = 0.0;
  for (size_t i = 0; i < 5; ++i) {
    const Pass one = RunOnce(options, {}, pairs, i, i + 1);
    loss += one.sums.loss;
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += double{one.gradients[j]};
  }
  CHECK(all.sums.loss == Approx(loss).epsilon(1e-6));
  double difference = 0.0;
  double norm = 0.0;
  for (size_t j = 0; j < sum.size(); ++j) {
    difference += std::pow(sum[j] - double{all.gradients[j]}, 2);
    norm += sum[j] * sum[j];
  }
  CHECK(std::sqrt(difference / norm) < 1e-6);
}

TEST_CASE("one thread and two differ by the rounding of products alone") {
  Seq2SeqOptions options = SmallOptions();
  options.dropout = 0.1f;
  const auto pairs = RandomPairs(8, 30, options.vocab_size, 3);
  SetNumThreads(1);
  const Pass one = RunOnce(options, {}, pairs, 0, 8);
  SetNumThreads(2);
  const Pass two = RunOnce(options, {}, pairs, 0, 8);
  CHECK(one.sums.loss == Approx(two.sums.loss).epsilon(1e-8));
  // Products may split their sums by threads; everything else must not.
  double difference = 0.0;
  double norm = 0.0;
  for (size_t j = 0; j < one.gradients.size(); ++j) {
    difference += std::pow(double{one.gradients[j]} - double{two.gradients[j]}, 2);
    norm += std::pow(double{one.gradients[j]}, 2);
  }
  CHECK(std::sqrt(difference / norm) < 1e-6);
}

TEST_CASE("every parameter reports its gradient once, in the order of the arena") {
  for (const bool tied : {true, false}) {
    for (const bool pre_norm : {true, false}) {
      Seq2SeqOptions options = SmallOptions();
      options.tie_embeddings = options.tie_output = tied;
      options.pre_norm = pre_norm;
      Seq2SeqTransformer model(options);
      model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
      Context ctx(testing::TestDevice());
      ctx.set_training(true);
      std::vector<int> ready;
      model.parameters().SetReadyListener(
          [&](const Parameter& parameter) { ready.push_back(parameter.index()); });
      const auto pairs = RandomPairs(2, 5, options.vocab_size, 4);
      model.Forward(Pack(pairs, 0, 2, options.pad_id()), ctx);
      model.Backward(ctx);
      std::vector<int> sorted = ready;
      std::sort(sorted.begin(), sorted.end());
      REQUIRE(sorted.size() == model.parameters().in_backward_order().size());
      for (size_t i = 0; i < sorted.size(); ++i) CHECK(sorted[i] == static_cast<int>(i));
      // The last to be ready is the table that the loss and both stacks add to.
      if (tied) CHECK(model.parameters().in_backward_order().back()->index() == ready.back());
    }
  }
}

TEST_CASE("the pad row stays zero and an empty micro-batch adds nothing") {
  const Seq2SeqOptions options = SmallOptions();
  Seq2SeqTransformer model(options);
  model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
  Context ctx(testing::TestDevice());
  ctx.set_training(true);
  const auto pairs = RandomPairs(2, 5, options.vocab_size, 4);
  model.Forward(Pack(pairs, 0, 2, options.pad_id()), ctx);
  model.Backward(ctx);
  Parameter& table = *model.parameters().Find("model.shared.weight");
  for (const Tensor& tensor : {table.master(), table.gradient()}) {
    const Tensor row = tensor.Rows(options.pad_id(), options.pad_id() + 1);
    for (const float value : testing::ElementsOf<float>(row)) CHECK(value == 0.0f);
  }
  const std::vector<float> before = testing::ElementsOf<float>(model.parameters().gradients());
  const LossSums sums = model.Forward(TranslationBatch{}, ctx);
  model.Backward(ctx);
  CHECK(sums.tokens == 0);
  CHECK(testing::ElementsOf<float>(model.parameters().gradients()) == before);
}

// Gradients of an update of micro-batches with these many pairs.
std::vector<float> GradientsOfUpdate(Seq2SeqTransformer& model, const std::vector<size_t>& parts,
                                     bool overwrites, Context& ctx) {
  ParameterSet& parameters = model.parameters();
  if (overwrites) {
    parameters.BeginGradients(ctx.stream());
  } else {
    Zero(parameters.gradients(), ctx.stream());
  }
  const auto pairs = RandomPairs(3, 5, model.options().vocab_size, 4);
  for (const size_t count : parts) {
    model.Forward(count == 0 ? TranslationBatch() : Pack(pairs, 0, count, model.options().pad_id()),
                  ctx);
    model.Backward(ctx);
  }
  return testing::ElementsOf<float>(parameters.gradients());
}

TEST_CASE("an update's first products overwrite what is left of another update") {
  for (const bool tied : {true, false}) {
    for (const auto& [dtype, recompute] : {std::pair(DType::kFloat32, Recompute::kNone),
                                           std::pair(DType::kFloat32, Recompute::kFull),
                                           std::pair(DType::kBFloat16, Recompute::kNone)}) {
      Seq2SeqOptions options = SmallOptions();
      options.tie_embeddings = options.tie_output = tied;
      Seq2SeqTransformer model(options);
      model.Allocate(testing::TestDevice(), dtype, 1);
      Context ctx(testing::TestDevice(), {.compute_type = dtype, .recompute = recompute});
      ctx.set_training(true);
      for (const std::vector<size_t>& parts :
           {std::vector<size_t>{2}, {3, 1}, {0, 2}, {2, 0}, {0}, {}}) {
        CAPTURE(tied, Name(dtype), recompute == Recompute::kFull, parts);
        const auto expected = GradientsOfUpdate(model, parts, /*overwrites=*/false, ctx);
        for (Parameter* parameter : model.parameters().in_backward_order()) {
          const std::vector<float> garbage(static_cast<size_t>(parameter->shape().elements()),
                                           std::nanf(""));
          Upload<float>(garbage, parameter->gradient(), ctx.stream());
        }
        CHECK(GradientsOfUpdate(model, parts, /*overwrites=*/true, ctx) == expected);
      }
    }
  }
}

TEST_CASE("incremental decoding gives the logits of teacher forcing") {
  for (const bool pre_norm : {false, true}) {
    Seq2SeqOptions options = SmallOptions();
    options.pre_norm = pre_norm;
    Seq2SeqTransformer model(options);
    model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
    Context ctx(testing::TestDevice());
    const auto pairs = RandomPairs(3, 12, options.vocab_size, 6);
    const TranslationBatch batch = Pack(pairs, 0, 3, options.pad_id());
    const Tensor memory = model.Encode(batch.source_ids, batch.source, ctx);
    const std::vector<float> expected = testing::ElementsOf<float>(model.Logits(batch, ctx));
    DecoderState state = model.StartDecoding(memory, batch.source, 3 * 16, ctx);
    std::vector<std::vector<int32_t>> history(3);
    int32_t next_slot = 0;
    for (int32_t position = 0; position < batch.target.max_length(); ++position) {
      std::vector<int32_t> ids, rows{0}, slots;
      const int32_t first_slot = next_slot;
      for (int64_t s = 0; s < 3; ++s) {
        if (position < batch.target.length(s)) {
          const int32_t token = batch.target.begin(s) + position;
          ids.push_back(batch.decoder_ids[static_cast<size_t>(token)]);
          auto& own = history[static_cast<size_t>(s)];
          own.push_back(next_slot++);
          slots.insert(slots.end(), own.begin(), own.end());
        }
        rows.push_back(static_cast<int32_t>(ids.size()));
      }
      const Sequences row_sequences(rows);
      const auto count = static_cast<int64_t>(ids.size());
      const std::vector<float> step = testing::ElementsOf<float>(
          model.Step(ids, position,
                     {.slots = ctx.Upload(slots).Reshape({count, position + 1}),
                      .first_slot = first_slot,
                      .rows = row_sequences,
                      .memory_sequences = state.memory_sequences},
                     state, ctx));
      for (int64_t s = 0; s < 3; ++s) {
        if (position >= batch.target.length(s)) continue;
        const float* const got = step.data() + row_sequences.begin(s) * options.vocab_size;
        const float* const want =
            expected.data() + (batch.target.begin(s) + position) * options.vocab_size;
        double sum = 0.0;
        for (int64_t c = 0; c < options.vocab_size; ++c) sum += std::exp(double{want[c]});
        for (int64_t c = 0; c < options.vocab_size; ++c) {
          CHECK(double{got[c]} == Approx(double{want[c]} - std::log(sum)).margin(2e-5));
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtrain
