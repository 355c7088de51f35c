// bert_exchange.cc - what tests/golden/compare_bert.py asks for: one step of a pretrained BERT.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/models/pretrained_weights.h"
#include "dtrain/ops/cast.h"
#include "dtrain/tasks/classification/head.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/test_device.h"

namespace dtrain {
namespace {

template <typename T>
std::vector<T> Values(const SafetensorsFile& file, const char* name) {
  const NamedTensor* const tensor = file.Find(name);
  REQUIRE(tensor != nullptr);
  std::vector<T> values(tensor->data.size() / sizeof(T));
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  return values;
}

ClassificationBatch BatchOf(const SafetensorsFile& file) {
  ClassificationBatch batch;
  batch.token_ids = Values<int32_t>(file, "token.ids");
  batch.type_ids = Values<int32_t>(file, "type.ids");
  batch.sequences = Sequences(Values<int32_t>(file, "offsets"));
  batch.labels = Values<float>(file, "targets");
  for (int64_t s = 0; s < batch.sequences.count(); ++s) {
    for (int32_t t = 0; t < batch.sequences.length(s); ++t) batch.position_ids.push_back(t);
    batch.rows.push_back(s);
    batch.weights.push_back(1.0f);
  }
  return batch;
}

BertClassifierOptions OptionsOf(const nlohmann::json& config) {
  return {.bert = {.vocab_size = config.at("vocab_size"),
                   .hidden_size = config.at("hidden_size"),
                   .num_layers = config.at("num_hidden_layers"),
                   .num_heads = config.at("num_attention_heads"),
                   .ffn_size = config.at("intermediate_size"),
                   .activation = config.at("hidden_act") == "gelu" ? Activation::kGeluErf
                                                                   : Activation::kGeluTanh,
                   .max_positions = config.at("max_position_embeddings"),
                   .type_vocab_size = config.at("type_vocab_size"),
                   .dropout = 0.0f,
                   .attention_dropout = 0.0f},
          .num_labels = config.value("num_labels", 2),
          .classifier_dropout = 0.0f};
}

// Reads batch.safetensors and config.json of DTRAIN_BERT_EXCHANGE, whose weights are at the path in
// weights.txt; writes ours.safetensors: `hidden`, `logits`, and `grad.*` of the mean loss.
TEST_CASE("a pretrained BERT computes a step for a comparison", "[.exchange]") {
  const char* const directory = std::getenv("DTRAIN_BERT_EXCHANGE");
  REQUIRE(directory != nullptr);
  const std::string folder = directory;
  const BertClassifierOptions options =
      OptionsOf(nlohmann::json::parse(ReadTestFile(folder + "/config.json")));
  BertClassifier model(options);
  model.Allocate(testing::TestDevice(), DType::kFloat32, /*seed=*/1);
  const auto report =
      LoadPretrainedWeights(ReadTestFile(folder + "/weights.txt"), model.parameters());
  INFO(std::string(report.status().message()));
  REQUIRE(report.ok());
  std::printf("%s\n", report->Describe().c_str());

  const SafetensorsFile file = *SafetensorsFile::Open(folder + "/batch.safetensors");
  const ClassificationBatch batch = BatchOf(file);
  Context ctx(testing::TestDevice(), {});
  const auto hidden = testing::ElementsOf<float>(model.Encode(batch, ctx));
  ctx.set_training(true);
  ClassificationOutputs outputs;
  const LossSums sums = model.Forward(batch, ctx, &outputs);
  model.Backward(ctx);
  Scale(model.parameters().gradients(), 1.0f / static_cast<float>(batch.size()), ctx.stream());

  std::vector<std::vector<float>> owners;
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape,
                       const std::vector<float>& values) {
    tensors.push_back({name, DType::kFloat32, shape, std::as_bytes(std::span(values))});
  };
  const auto tokens = static_cast<int64_t>(batch.token_ids.size());
  add("hidden", {tokens, options.bert.hidden_size}, hidden);
  add("logits", {batch.size(), options.num_labels}, outputs.logits);
  owners.reserve(model.parameters().in_backward_order().size() + 1);
  owners.push_back({static_cast<float>(sums.loss / static_cast<double>(batch.size()))});
  add("loss", {1}, owners.back());
  for (Parameter* parameter : model.parameters().in_backward_order()) {
    owners.push_back(testing::ElementsOf<float>(parameter->gradient()));
    const std::span<const int64_t> dims = parameter->shape().dims();
    add("grad." + parameter->name(), {dims.begin(), dims.end()}, owners.back());
  }
  REQUIRE(WriteSafetensors(folder + "/ours.safetensors", tensors).ok());
}

}  // namespace
}  // namespace dtrain
