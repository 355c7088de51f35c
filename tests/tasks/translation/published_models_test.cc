// published_models_test.cc - Marian models of transformers: logits, gradients, an update, searches.
// SPDX-License-Identifier: Apache-2.0
//
// Besides those in tests/golden/, DTRAIN_PUBLISHED_MODELS may name a folder with more of them,
// one in each folder below it: what save_pretrained() of a MarianMTModel writes, and golden.json,
// what transformers computes with it.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/models/beam_search.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/ops/cast.h"
#include "dtrain/optim/adam.h"
#include "dtrain/tasks/translation/translation_model.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"
#include "dtrain/tasks/translation/translator.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/published_model.h"
#include "testing/test_device.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;
using testing::LargestDifference;
using testing::Norm;

// Of the largest of its kind.
constexpr double kTolerance = 1e-4;
constexpr double kUpdateTolerance = 1e-5;
constexpr float kLearningRate = 1e-3f;
constexpr float kWeightDecay = 0.01f;

std::vector<std::string> Folders() {
  std::vector<std::string> folders = {testing::GoldenPath("opus_tiny"),
                                      testing::GoldenPath("opus_separate"),
                                      testing::GoldenPath("opus_untied")};
  const char* const root = std::getenv("DTRAIN_PUBLISHED_MODELS");
  if (root == nullptr) return folders;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const std::string folder = entry.path();
    if (!std::filesystem::exists(folder + "/golden.json")) continue;
    const Json config = Json::parse(ReadTestFile(folder + "/config.json"));
    if (config.at("model_type") == "marian") folders.push_back(folder);
  }
  REQUIRE(folders.size() > 3);
  return folders;
}

Json GoldenOf(const std::string& folder) {
  return Json::parse(ReadTestFile(folder + "/golden.json"));
}

// Rows without their padding.
std::vector<Ids> RowsOf(const Json& rows, const std::function<bool(size_t, size_t)>& is_padding) {
  std::vector<Ids> result(rows.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t i = 0; i < rows[row].size(); ++i) {
      if (!is_padding(row, i)) result[row].push_back(rows[row][i]);
    }
  }
  return result;
}

std::vector<Ids> SourcesOf(const Json& golden) {
  const Json& batch = golden.at("batch");
  return RowsOf(batch.at("input_ids"),
                [&](size_t row, size_t i) { return batch["attention_mask"][row][i] == 0; });
}

TranslationBatch BatchOf(const Json& golden, int32_t start) {
  TranslationBatch batch;
  Ids source_offsets = {0};
  for (const Ids& source : SourcesOf(golden)) {
    batch.source_ids.insert(batch.source_ids.end(), source.begin(), source.end());
    source_offsets.push_back(static_cast<int32_t>(batch.source_ids.size()));
  }
  const Json& labels = golden["batch"].at("labels");
  Ids target_offsets = {0};
  for (const Ids& target :
       RowsOf(labels, [&](size_t row, size_t i) { return labels[row][i] == -100; })) {
    batch.decoder_ids.push_back(start);
    batch.decoder_ids.insert(batch.decoder_ids.end(), target.begin(), target.end() - 1);
    batch.target_ids.insert(batch.target_ids.end(), target.begin(), target.end());
    target_offsets.push_back(static_cast<int32_t>(batch.target_ids.size()));
  }
  batch.source = Sequences(source_offsets);
  batch.target = Sequences(target_offsets);
  return batch;
}

TranslationModel Load(const std::string& folder) {
  auto model = LoadTranslationModel(folder, {.device = testing::TestDevice()});
  INFO(model.status().message());
  REQUIRE(model.ok());
  return *std::move(model);
}

// Without dropout and smoothing, and with a row of <pad> that learns, as the golden values.
std::unique_ptr<Seq2SeqTransformer> PlainModel(const TranslationModel& published) {
  Seq2SeqOptions options = published.model->options();
  options.dropout = options.attention_dropout = options.activation_dropout = 0.0f;
  options.label_smoothing = 0.0f;
  options.learned_pad = true;
  auto model = std::make_unique<Seq2SeqTransformer>(options);
  model->Allocate(testing::TestDevice(), DType::kFloat32, /*seed=*/1);
  Stream stream(testing::TestDevice());
  for (Parameter* parameter : model->parameters().in_backward_order()) {
    Parameter* const from = published.model->parameters().Find(parameter->name());
    Upload<float>(Download<float>(from->master(), stream), parameter->master(), stream);
  }
  stream.Synchronize();
  model->parameters().RefreshComputeWeights();
  return model;
}

TEST_CASE("a published model's texts have its ids, and ids its texts") {
  for (const std::string& folder : Folders()) {
    INFO(folder);
    const Json golden = GoldenOf(folder);
    const TranslationModel published = Load(folder);
    TranslationEncoder encoder(*published.tokenizer);
    const auto texts = golden.at("texts").get<std::vector<std::string>>();
    const EncodedLines sources = encoder.Encode(texts, MarianLines::kSources);
    const EncodedLines targets = encoder.Encode(texts, MarianLines::kTargets);
    for (size_t i = 0; i < texts.size(); ++i) {
      INFO("text " << i << ": " << texts[i]);
      Ids source(sources.line(i).begin(), sources.line(i).end());
      Ids target(targets.line(i).begin(), targets.line(i).end());
      source.push_back(published.tokenizer->eos_id());
      target.push_back(published.tokenizer->eos_id());
      CHECK(source == golden["ids"][i].get<Ids>());
      CHECK(target == golden["target_ids"][i].get<Ids>());
      CHECK(published.tokenizer->Decode(target) == golden["decoded"][i].get<std::string>());
    }
  }
}

TEST_CASE("logits, gradients and an update of a published model are those of transformers") {
  for (const std::string& folder : Folders()) {
    INFO(folder);
    const Json golden = GoldenOf(folder);
    const TranslationModel published = Load(folder);
    const auto model = PlainModel(published);
    const TranslationBatch batch = BatchOf(golden, published.tokenizer->pad_id());
    Context ctx(testing::TestDevice());
    const int64_t classes = model->options().vocab_size;
    const std::vector<float> all = Download<float>(model->Logits(batch, ctx), ctx.stream());
    std::vector<float> ours, theirs;
    for (int64_t row = 0; row < batch.target.count(); ++row) {
      for (size_t i = 0; i < golden["logits"][static_cast<size_t>(row)].size(); ++i) {
        const auto begin =
            all.begin() + (batch.target.begin(row) + static_cast<int64_t>(i)) * classes;
        ours.insert(ours.end(), begin, begin + classes);
        const auto logits = golden["logits"][static_cast<size_t>(row)][i].get<std::vector<float>>();
        theirs.insert(theirs.end(), logits.begin(), logits.end());
      }
    }
    CHECK(LargestDifference(ours, theirs) <
          kTolerance * LargestDifference(theirs, std::vector<float>(theirs.size())));

    ctx.set_training(true);
    const LossSums sums = model->Forward(batch, ctx);
    const auto tokens = static_cast<double>(batch.target.tokens());
    CHECK(sums.loss / tokens == Approx(golden.at("loss").get<double>()).epsilon(kTolerance));
    model->Backward(ctx);
    const double total = golden.at("gradient_norms").at("total");
    std::map<std::string, std::vector<float>> before;
    size_t compared = 0;
    for (Parameter* parameter : model->parameters().in_backward_order()) {
      const std::string& name = parameter->name();
      INFO(name);
      before[name] = Download<float>(parameter->master(), ctx.stream());
      const double norm = Norm(Download<float>(parameter->gradient(), ctx.stream())) / tokens;
      // transformers does not train it.
      if (name == "final_logits_bias") {
        CHECK(norm == 0.0);
        continue;
      }
      ++compared;
      REQUIRE(golden["gradient_norms"].contains(name));
      CHECK(std::abs(norm - golden["gradient_norms"][name].get<double>()) < kTolerance * total);
    }
    CHECK(compared == golden["gradient_norms"].size() - 1);
    Adam adam(model->parameters(),
              {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = kWeightDecay});
    adam.Step(kLearningRate, static_cast<float>(1.0 / tokens), ctx.stream());
    for (Parameter* parameter : model->parameters().in_backward_order()) {
      const std::string& name = parameter->name();
      INFO(name);
      std::vector<float> now = Download<float>(parameter->master(), ctx.stream());
      if (name == "final_logits_bias") {
        CHECK(now == before[name]);
        continue;
      }
      // Of a key's bias the gradient is rounding alone, which Adam turns into whole steps.
      if (name.ends_with("k_proj.bias")) continue;
      // Theirs decays biases and norms too.
      if (!parameter->weight_decay()) {
        for (size_t i = 0; i < now.size(); ++i) {
          now[i] -= kLearningRate * kWeightDecay * before[name][i];
        }
      }
      CHECK(LargestDifference(now, golden["after_adamw"][name].get<std::vector<float>>()) <
            kUpdateTolerance);
    }
  }
}

// What generate() was told, and what it gave.
struct Search {
  BeamSearchOptions options;
  int32_t max_new_tokens = 0;
  Json sequences;
};

std::vector<Search> SearchesOf(const Json& golden, const TranslationTokenizer& tokenizer) {
  if (!golden.contains("searches")) {
    const Json only = {{"num_beams", 4}, {"early_stopping", true}, {"max_new_tokens", 20}};
    return SearchesOf({{"searches", {only}}, {"beam4", golden.at("beam4")}}, tokenizer);
  }
  std::vector<Search> searches;
  for (const Json& given : golden["searches"]) {
    Search search;
    search.options = SearchOptionsFor(tokenizer, {});
    search.options.beam_size = given.at("num_beams");
    search.options.alpha = given.value("length_penalty", 1.0f);
    search.options.rules = BeamRules::kTransformers;
    search.options.early_stopping = given.value("early_stopping", false);
    search.options.renormalizes = given.value("renormalize_logits", false);
    search.max_new_tokens = given.at("max_new_tokens");
    search.sequences = given.contains("sequences") ? given["sequences"] : golden.at("beam4");
    searches.push_back(search);
  }
  return searches;
}

TEST_CASE("beam search by the rules of transformers finds the translations of generate()") {
  for (const std::string& folder : Folders()) {
    INFO(folder);
    const Json golden = GoldenOf(folder);
    const TranslationModel published = Load(folder);
    const std::vector<Ids> sources = SourcesOf(golden);
    Context ctx(testing::TestDevice());
    for (Search& search : SearchesOf(golden, *published.tokenizer)) {
      INFO(search.options.beam_size << " beams, " << search.max_new_tokens << " tokens");
      for (size_t row = 0; row < sources.size(); ++row) {
        INFO("row " << row);
        // The last new token is the end.
        search.options.extra_length =
            search.max_new_tokens - 1 - static_cast<int32_t>(sources[row].size());
        const auto found =
            BeamSearch(*published.model, {{sources[row]}}, search.options, ctx).at(0).at(0);
        Ids expected;
        for (size_t i = 1; i < search.sequences[row].size(); ++i) {
          const int32_t id = search.sequences[row][i];
          if (id == published.tokenizer->eos_id()) break;
          expected.push_back(id);
        }
        CHECK(found.ids == expected);
      }
    }
  }
}

TEST_CASE("a published model translates as its generation_config.json says") {
  const TranslationModel published = Load(testing::GoldenPath("opus_tiny"));
  CHECK(published.search->rules == BeamRules::kTransformers);
  CHECK(published.search->alpha == 1.0f);
  CHECK(published.search->end_id == 0);
  CHECK(published.search->forbidden_ids.empty());
  CHECK(published.max_length == 95);
  Context ctx(testing::TestDevice());
  const std::vector<std::string> lines = {"The dialog is located on the computer.", "", "  "};
  const auto translations = TranslateLines(published, lines, {.beam_size = 4, .n_best = 2}, ctx);
  REQUIRE(translations.size() == 3);
  CHECK(translations[0].size() == 2);
  CHECK(translations[0][0].score >= translations[0][1].score);
  CHECK(translations[0][0].text != translations[0][1].text);
  CHECK(translations[1][0].text.empty());
}

}  // namespace
}  // namespace dtrain
