// published_models_test.cc - folders that transformers saved: ids, logits, gradients, an update.
// SPDX-License-Identifier: Apache-2.0
//
// DTRAIN_PUBLISHED_MODELS is a folder with one model in each folder below it: what
// save_pretrained() of a ...ForSequenceClassification writes, and golden.json, what transformers
// computes with it. Without the variable the test is skipped.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/classification.pb.h"
#include "dtrain/models/pretrained_weights.h"
#include "dtrain/ops/cast.h"
#include "dtrain/optim/adam.h"
#include "dtrain/tasks/classification/config.h"
#include "dtrain/tasks/classification/head.h"
#include "dtrain/tasks/shared/internal/pretrained_shape.h"
#include "dtrain/tasks/shared/internal/tokenization.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/golden.h"
#include "testing/published_model.h"

namespace dtrain {
namespace {

using Json = nlohmann::json;
using testing::LargestDifference;
using testing::Norm;

// Of the largest of its kind.
constexpr double kTolerance = 1e-4;
constexpr double kUpdateTolerance = 1e-5;
constexpr float kLearningRate = 1e-3f;
constexpr float kWeightDecay = 0.01f;

std::vector<std::string> Folders() {
  std::vector<std::string> folders;
  const char* const root = std::getenv("DTRAIN_PUBLISHED_MODELS");
  if (root == nullptr) {
    std::cout << "skipped: DTRAIN_PUBLISHED_MODELS names no folder of models\n";
    return folders;
  }
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const std::string folder = entry.path();
    if (!std::filesystem::exists(folder + "/golden.json")) continue;
    const Json config = Json::parse(ReadTestFile(folder + "/config.json"));
    const std::string kind = config.at("architectures").at(0);
    if (kind.ends_with("ForSequenceClassification")) folders.push_back(folder);
  }
  REQUIRE_FALSE(folders.empty());
  return folders;
}

// A model as bert_classify loads it, without dropout.
struct Published {
  explicit Published(const std::string& path) : folder(path) {
    golden = Json::parse(ReadTestFile(folder + "/golden.json"));
    config.mutable_model()->set_pretrained(folder);
    config.mutable_data()->set_max_length(16);
    const Status status = internal::LoadPretrainedShape(config);
    INFO(status.message());
    REQUIRE(status.ok());
    config.mutable_model()->set_dropout(0.0f);
    config.mutable_model()->set_attention_dropout(0.0f);
    config.mutable_model()->set_classifier_dropout(0.0f);
    const Json file = Json::parse(ReadTestFile(folder + "/config.json"));
    config.mutable_model()->set_vocab_size(file.at("vocab_size"));
  }

  TextTokenizer Tokenizer() const {
    auto tokenizer =
        TextTokenizer::Load(config.data().vocabulary(), internal::TokenizationOf(config.data()));
    INFO(tokenizer.status().message());
    REQUIRE(tokenizer.ok());
    return *std::move(tokenizer);
  }

  std::unique_ptr<BertClassifier> Model() const {
    BertClassifierOptions options = ClassifierOptionsOf(config);
    options.num_labels = static_cast<int64_t>(golden.at("logits").at(0).size());
    auto model = std::make_unique<BertClassifier>(options);
    model->Allocate(testing::TestDevice(), DType::kFloat32, /*seed=*/1);
    const auto report = LoadPretrainedWeights(folder, model->parameters(),
                                              {.family = options.bert.family, .may_be_new = {}});
    INFO(report.status().message());
    REQUIRE(report.ok());
    CHECK(report->initialised.empty());
    return model;
  }

  // Without the padding.
  ClassificationBatch Batch() const {
    const Json& from = golden.at("batch");
    ClassificationBatch batch;
    std::vector<int32_t> offsets = {0};
    for (size_t row = 0; row < from.at("input_ids").size(); ++row) {
      int32_t position = 0;
      for (size_t i = 0; i < from["input_ids"][row].size(); ++i) {
        if (from["attention_mask"][row][i] == 0) continue;
        batch.token_ids.push_back(from["input_ids"][row][i]);
        batch.type_ids.push_back(
            from.contains("token_type_ids") ? from["token_type_ids"][row][i].get<int32_t>() : 0);
        batch.position_ids.push_back(position++);
      }
      offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
      batch.labels.push_back(from["labels"][row]);
      batch.weights.push_back(1.0f);
      batch.rows.push_back(static_cast<int64_t>(row));
    }
    batch.sequences = Sequences(offsets);
    return batch;
  }

  std::string folder;
  Json golden;
  proto::ClassificationConfig config;
};

std::vector<float> Flat(const Json& rows) {
  std::vector<float> values;
  for (const Json& row : rows) {
    for (const Json& value : row) values.push_back(value);
  }
  return values;
}

TEST_CASE("texts and pairs have the ids of the published tokenizer") {
  for (const std::string& folder : Folders()) {
    INFO(folder);
    const Published published(folder);
    TextBatchEncoder encoder(published.Tokenizer());
    const auto texts = published.golden.at("texts").get<std::vector<std::string>>();
    for (size_t i = 0; i < texts.size(); ++i) {
      INFO("text " << i << ": " << texts[i]);
      const std::vector<std::string_view> first = {texts[i]};
      const std::vector<std::string_view> second = {texts[(i + 1) % texts.size()]};
      const EncodedTexts row = encoder.Encode(first);
      CHECK(std::vector<int32_t>(row.ids) ==
            published.golden["ids"][i].get<std::vector<int32_t>>());
      // A lone pair whose second text is empty is one text to transformers, one in a list is a
      // pair, as here.
      if (second[0].empty()) continue;
      const EncodedTexts pair = encoder.Encode(first, second, {});
      CHECK(std::vector<int32_t>(pair.ids) ==
            published.golden["pair_ids"][i].get<std::vector<int32_t>>());
    }
  }
}

TEST_CASE("logits, gradients and an update are those of transformers") {
  for (const std::string& folder : Folders()) {
    INFO(folder);
    const Published published(folder);
    const Json& golden = published.golden;
    const auto model = published.Model();
    const ClassificationBatch batch = published.Batch();
    const auto rows = static_cast<float>(batch.size());
    Context ctx(testing::TestDevice());
    ClassificationOutputs outputs;
    const std::vector<float> logits = Flat(golden.at("logits"));
    model->Forward(batch, ctx, &outputs);
    CHECK(LargestDifference(outputs.logits, logits) <
          kTolerance * LargestDifference(logits, std::vector<float>(logits.size())));

    ctx.set_training(true);
    const LossSums sums = model->Forward(batch, ctx);
    CHECK(sums.loss / rows == Approx(golden.at("loss").get<double>()).epsilon(kTolerance));
    model->Backward(ctx);
    const double total = golden.at("gradient_norms").at("total");
    std::map<std::string, std::vector<float>> before;
    for (Parameter* parameter : model->parameters().in_backward_order()) {
      const std::vector<float> gradient = Download<float>(parameter->gradient(), ctx.stream());
      const double norm = Norm(gradient) / rows;
      const std::string& name = parameter->name();
      INFO(name);
      before[name] = Download<float>(parameter->master(), ctx.stream());
      REQUIRE(golden["gradient_norms"].contains(name));
      CHECK(std::abs(norm - golden["gradient_norms"][name].get<double>()) < kTolerance * total);
    }
    Adam adam(model->parameters(),
              {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = kWeightDecay});
    adam.Step(kLearningRate, 1.0f / rows, ctx.stream());
    for (Parameter* parameter : model->parameters().in_backward_order()) {
      const std::string& name = parameter->name();
      // Of a key's bias the gradient is rounding alone, which Adam turns into whole steps.
      if (name.ends_with("key.bias") || name.ends_with("k_lin.bias")) continue;
      INFO(name);
      std::vector<float> ours = Download<float>(parameter->master(), ctx.stream());
      // Theirs decays biases and norms too.
      if (!parameter->weight_decay()) {
        for (size_t i = 0; i < ours.size(); ++i) {
          ours[i] -= kLearningRate * kWeightDecay * before[name][i];
        }
      }
      CHECK(LargestDifference(ours, golden["after_adamw"][name].get<std::vector<float>>()) <
            kUpdateTolerance);
    }
  }
}

}  // namespace
}  // namespace dtrain
