// pretrained_weights_test.cc - every format gives the same model, and no tensor goes unsaid.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/pretrained_weights.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "dtrain/tasks/classification/head.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/golden.h"
#include "testing/test_device.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

const std::string kGoldens = testing::GoldenPath("pretrained/");

// The model of tests/golden/make_pretrained_goldens.py.
BertClassifierOptions TinyOptions() {
  return {.bert = {.vocab_size = 19,
                   .hidden_size = 8,
                   .num_layers = 2,
                   .num_heads = 2,
                   .ffn_size = 12,
                   .max_positions = 10},
          .num_labels = 3};
}

struct Model {
  explicit Model(const BertClassifierOptions& options = TinyOptions(),
                 DType compute_type = DType::kFloat32)
      : classifier(options) {
    classifier.Allocate(testing::TestDevice(), compute_type, /*seed=*/5);
  }
  ParameterSet& parameters() { return classifier.parameters(); }
  std::vector<float> Values(const std::string& name) {
    return testing::ElementsOf<float>(parameters().Find(name)->master());
  }
  std::map<std::string, std::vector<float>> All() {
    std::map<std::string, std::vector<float>> all;
    for (const Parameter* p : parameters().in_backward_order()) all[p->name()] = Values(p->name());
    return all;
  }
  BertClassifier classifier;
};

// Writes a safetensors file of float32 tensors, each of one repeated value.
void WriteWeights(const std::string& path,
                  const std::map<std::string, std::vector<int64_t>>& shapes, float value = 0.5f) {
  std::vector<float> values(4096, value);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, shape] : shapes) {
    size_t count = 1;
    for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
    REQUIRE(count <= values.size());
    tensors.push_back(
        {name, DType::kFloat32, shape, std::as_bytes(std::span(values).first(count))});
  }
  REQUIRE(WriteSafetensors(path, tensors).ok());
}

// The shapes of a model's parameters under their own names.
std::map<std::string, std::vector<int64_t>> ShapesOf(Model& model) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const Parameter* p : model.parameters().in_backward_order()) {
    const std::span<const int64_t> dims = p->shape().dims();
    shapes[p->name()] = {dims.begin(), dims.end()};
  }
  return shapes;
}

std::string ErrorOf(const std::string& path, const PretrainedOptions& options = {}) {
  Model model;
  const Status status = LoadPretrainedWeights(path, model.parameters(), options).status();
  REQUIRE(!status.ok());
  CHECK(status.code() == ExitCode::kStorage);
  return std::string(status.message());
}

TEST_CASE("every format and every habit of names gives the same model") {
  Model expected;
  // What others wrote: numbers in C order under today's names.
  std::map<std::string, std::vector<float>> golden;
  const WeightFile shards = *WeightFile::Open(kGoldens + "shards");
  for (const WeightTensor& tensor : shards.tensors()) {
    std::vector<float>& values = golden[tensor.tensor.name];
    values.resize(tensor.tensor.data.size() / sizeof(float));
    std::memcpy(values.data(), tensor.tensor.data.data(), tensor.tensor.data.size());
  }
  REQUIRE(golden.size() == 39);
  const std::vector<float> classifier = expected.Values("classifier.weight");
  for (const char* const path :
       {"tensorflow", "tensorflow/bert_model.ckpt", "tensorflow/bert_model.ckpt.index", "torch",
        "torch/pytorch_model.bin", "old", "plain", "plain/model.safetensors", "shards",
        "shards/model.safetensors.index.json"}) {
    INFO(path);
    Model model;
    const auto report = LoadPretrainedWeights(kGoldens + path, model.parameters());
    INFO(std::string(report.status().message()));
    REQUIRE(report.ok());
    CHECK(report->loaded.size() == 39);
    CHECK(report->initialised == std::vector<std::string>{"classifier.bias", "classifier.weight"});
    for (const auto& [name, values] : golden) {
      INFO(name);
      CHECK(model.Values(name) == values);
    }
    CHECK(model.Values("classifier.weight") == classifier);
  }
}

TEST_CASE("a loaded model computes what transformers computes, gradients included") {
  const testing::Golden golden("pretrained/expected");
  BertClassifierOptions options = TinyOptions();
  options.bert.dropout = options.bert.attention_dropout = options.classifier_dropout = 0.0f;
  Model model(options);
  REQUIRE(LoadPretrainedWeights(kGoldens + "tensorflow", model.parameters()).ok());
  for (const char* const name : {"classifier.weight", "classifier.bias"}) {
    testing::SetElements(golden.Floats(name), model.parameters().Find(name)->master());
  }
  ClassificationBatch batch;
  batch.token_ids = golden.Ints("token.ids");
  batch.type_ids = golden.Ints("type.ids");
  batch.position_ids = {0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  batch.sequences = Sequences(golden.Ints("offsets"));
  batch.labels = golden.Floats("targets");
  batch.weights = {1.0f, 1.0f, 1.0f};
  batch.rows = {0, 1, 2};
  Context ctx(testing::TestDevice(), {});
  CHECK(testing::GoldenError(golden, "hidden", model.classifier.Encode(batch, ctx)) < 1e-5);
  ctx.set_training(true);
  ClassificationOutputs outputs;
  model.classifier.Forward(batch, ctx, &outputs);
  model.classifier.Backward(ctx);
  CHECK(RelativeError(std::span<const float>(outputs.logits), golden.Doubles("logits")) < 1e-5);
  for (Parameter* parameter : model.parameters().in_backward_order()) {
    const std::string name = "grad." + parameter->name();
    INFO(name);
    // A constant added to all keys leaves the softmax as it is: zero but for rounding.
    if (name.ends_with("key.bias")) continue;
    CHECK(testing::GoldenError(golden, name, parameter->gradient()) < 1e-4);
  }
}

TEST_CASE("the report names what was loaded, what starts anew and what was not used") {
  Model model;
  const PretrainedReport report =
      *LoadPretrainedWeights(kGoldens + "tensorflow", model.parameters());
  CHECK(report.unused == std::vector<std::string>{"cls/predictions/output_bias",
                                                  "cls/seq_relationship/output_weights"});
  CHECK(report.ignored == 5);  // two moments of two tensors, and the step
  CHECK(report.loaded_values == model.parameters().num_elements() - 3 * 8 - 3);
  const std::string text = report.Describe();
  CHECK_THAT(text, Catch::Contains("39 weights loaded"));
  CHECK_THAT(text, Catch::Contains("newly initialised: classifier.bias, classifier.weight"));
  CHECK_THAT(text, Catch::Contains("unused: cls/predictions/output_bias, cls/seq"));
  CHECK_THAT(text, Catch::Contains("ignored: 5 tensors that are not weights"));
}

TEST_CASE("a vocabulary is trimmed or padded with a word, and not beyond all bounds") {
  Model model;
  const PretrainedReport trimmed = *LoadPretrainedWeights(kGoldens + "old", model.parameters());
  REQUIRE(trimmed.notes.size() == 1);
  CHECK(trimmed.notes[0] ==
        "bert.embeddings.word_embeddings.weight: the last 5 of the file's 24 rows are left out");

  BertClassifierOptions larger = TinyOptions();
  larger.bert.vocab_size = 32;
  Model padded(larger);
  const std::string words = "bert.embeddings.word_embeddings.weight";
  const std::vector<float> before = padded.Values(words);
  const PretrainedReport report = *LoadPretrainedWeights(kGoldens + "plain", padded.parameters());
  CHECK(report.notes ==
        std::vector<std::string>{
            words + ": the last 13 of 32 rows are not in the file and start from new values"});
  const std::vector<float> after = padded.Values(words);
  const std::vector<float> known = model.Values(words);
  CHECK(std::vector<float>(after.begin(), after.begin() + 19 * 8) == known);
  CHECK(std::vector<float>(after.begin() + 19 * 8, after.end()) ==
        std::vector<float>(before.begin() + 19 * 8, before.end()));

  larger.bert.vocab_size = 19 + 129;
  Model too_large(larger);
  const Status refused = LoadPretrainedWeights(kGoldens + "plain", too_large.parameters()).status();
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("'embeddings.word_embeddings.weight' is [19, 8], but the model's " +
                             words + " is [148, 8]"));
}

TEST_CASE("a shape that differs is refused with both, before anything has changed") {
  BertClassifierOptions wide = TinyOptions();
  wide.bert.ffn_size = 16;
  Model model(wide);
  const auto before = model.All();
  const Status status = LoadPretrainedWeights(kGoldens + "tensorflow", model.parameters()).status();
  CHECK(status.code() == ExitCode::kStorage);
  // Of a TensorFlow kernel the shape as we have it.
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("/dense/kernel' is [8, 12], but the model's bert.encoder.layer.1."
                             "output.dense.weight is [8, 16]"));
  CHECK(model.All() == before);
}

TEST_CASE("a file without some of the weights is refused unless that is allowed") {
  const TemporaryFolder folder;
  Model model;
  auto shapes = ShapesOf(model);
  shapes.erase("bert.pooler.dense.weight");
  shapes.erase("bert.pooler.dense.bias");
  shapes["bert.something.weight"] = {3};
  const std::string path = folder.File("part.safetensors");
  WriteWeights(path, shapes);
  CHECK_THAT(ErrorOf(path),
             Catch::Contains("holds 39 of the model's 41 weights; missing bert.pooler.dense.bias, "
                             "bert.pooler.dense.weight; not used bert.something.weight"));
  CHECK_THAT(ErrorOf(path),
             Catch::Contains("of one kind and size (there is no config.json next to "
                             "the weights that describes the model's shape), or set"));
  WriteTestFile(folder.File("config.json"), "{}");
  CHECK_THAT(ErrorOf(path), Catch::Contains("of one kind and size, or set"));
  const PretrainedReport report =
      *LoadPretrainedWeights(path, model.parameters(), {.allow_missing = true});
  CHECK(report.initialised.size() == 2);
  CHECK(model.Values("classifier.bias") == std::vector<float>(3, 0.5f));

  // Another model's file: nothing fits.
  WriteWeights(folder.File("other.safetensors"), {{"transformer.wte.weight", {5, 2}}});
  CHECK_THAT(ErrorOf(folder.File("other.safetensors")),
             Catch::Contains("holds 0 of the model's 41 weights"));
}

TEST_CASE("a classifier of another number of classes begins anew where that is allowed") {
  const TemporaryFolder folder;
  Model model;
  auto shapes = ShapesOf(model);
  shapes["classifier.weight"] = {2, 8};
  shapes["classifier.bias"] = {2};
  const std::string path = folder.File("two.safetensors");
  WriteWeights(path, shapes);
  const std::string refusal = ErrorOf(path);
  CHECK_THAT(refusal, Catch::Contains("but the model's classifier.") &&
                          Catch::EndsWith("make the model's sizes those of the file, or "
                                          "model.allow_missing=true to start with a new "
                                          "classifier"));

  const auto before = model.All();
  const PretrainedReport report =
      *LoadPretrainedWeights(path, model.parameters(), {.allow_missing = true});
  const std::vector<std::string> head = {"classifier.bias", "classifier.weight"};
  CHECK(report.initialised == head);
  CHECK(report.unused == head);
  CHECK(report.loaded.size() == 39);
  CHECK(report.notes ==
        std::vector<std::string>{
            "classifier.*: 2 classes in the file, 3 here: it starts from new values"});
  for (const std::string& name : head) CHECK(model.Values(name) == before.at(name));
  CHECK(model.Values("bert.pooler.dense.bias") == std::vector<float>(8, 0.5f));

  // Half of a head is none, and an encoder of another size is not left out.
  shapes["classifier.weight"] = {3, 8};
  WriteWeights(path, shapes);
  CHECK(LoadPretrainedWeights(path, model.parameters(), {.allow_missing = true})->initialised ==
        head);
  shapes["bert.pooler.dense.bias"] = {9};
  WriteWeights(path, shapes);
  CHECK_THAT(ErrorOf(path, {.allow_missing = true}),
             Catch::Contains("'bert.pooler.dense.bias' is [9], but the model's") &&
                 Catch::EndsWith("make the model's sizes those of the file"));
}

TEST_CASE("two tensors for one weight, and tensors that are not weights, are refused") {
  const TemporaryFolder folder;
  Model model;
  auto shapes = ShapesOf(model);
  shapes["embeddings.LayerNorm.gamma"] = {8};
  WriteWeights(folder.File("twice.safetensors"), shapes);
  CHECK_THAT(ErrorOf(folder.File("twice.safetensors")),
             Catch::Contains("'bert.embeddings.LayerNorm.weight' and 'embeddings.LayerNorm.gamma' "
                             "are both bert.embeddings.LayerNorm.weight"));
  const std::vector<int32_t> integers(3);
  const std::vector<NamedTensor> tensors = {
      {"classifier.bias", DType::kInt32, {3}, std::as_bytes(std::span(integers))}};
  REQUIRE(WriteSafetensors(folder.File("ints.safetensors"), tensors).ok());
  CHECK_THAT(ErrorOf(folder.File("ints.safetensors"), {.allow_missing = true}),
             Catch::Contains("'classifier.bias' holds int32, not weights"));
}

TEST_CASE("weights that are NaN, infinite or beyond float32 are refused by their tensor's name") {
  const TemporaryFolder folder;
  const std::string path = folder.File("bad.safetensors");
  PretrainedOptions options;
  options.allow_missing = true;
  const auto refusal = [&](const auto& values, DType dtype) {
    const std::vector<NamedTensor> tensors = {
        {"classifier.bias", dtype, {3}, std::as_bytes(std::span(values))}};
    REQUIRE(WriteSafetensors(path, tensors).ok());
    return ErrorOf(path, options);
  };
  const std::string expected = path +
                               ": 'classifier.bias' holds NaN or infinity; fetch the file again, "
                               "or convert from fp32";
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(refusal(std::vector<float>{1.0f, 2.0f, std::nanf("")}, DType::kFloat32) == expected);
  CHECK(refusal(std::vector<float>{-kInfinity, 2.0f, 1.0f}, DType::kFloat32) == expected);
  CHECK(refusal(std::vector<double>{1.0, 1e39, 1.0}, DType::kFloat64) == expected);
  CHECK(refusal(std::vector<Float16>{Float16(1.0f), Float16(kInfinity), Float16(1.0f)},
                DType::kFloat16) == expected);
  CHECK(refusal(std::vector<BFloat16>(3, BFloat16(std::nanf(""))), DType::kBFloat16) == expected);
  // The largest of all are weights like others.
  constexpr float kMax = std::numeric_limits<float>::max();
  const std::vector<float> large = {kMax, -kMax, 0.0f};
  const std::vector<NamedTensor> tensors = {
      {"classifier.bias", DType::kFloat32, {3}, std::as_bytes(std::span(large))}};
  REQUIRE(WriteSafetensors(path, tensors).ok());
  Model model;
  REQUIRE(LoadPretrainedWeights(path, model.parameters(), options).ok());
  CHECK(model.Values("classifier.bias") == large);
}

TEST_CASE("a number of a TensorFlow checkpoint that changed fails its checksum") {
  const TemporaryFolder folder;
  for (const char* const name : {"bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"}) {
    folder.Write(name, ReadTestFile(kGoldens + "tensorflow/" + name));
  }
  std::string data = ReadTestFile(folder.File("bert_model.ckpt.data-00000-of-00001"));
  data[1000] = static_cast<char>(data[1000] ^ 1);
  folder.Write("bert_model.ckpt.data-00000-of-00001", data);
  CHECK_THAT(ErrorOf(folder.path()), Catch::Contains("bert_model.ckpt.index: damaged: 'bert/") &&
                                         Catch::Contains("' fails its CRC32C"));
}

TEST_CASE("weights reach the compute type, which layers multiply with") {
  Model model(TinyOptions(), DType::kBFloat16);
  REQUIRE(LoadPretrainedWeights(kGoldens + "plain", model.parameters()).ok());
  Parameter& parameter = *model.parameters().Find("bert.pooler.dense.weight");
  const auto narrow = testing::ElementsOf<BFloat16>(parameter.value());
  const auto wide = model.Values("bert.pooler.dense.weight");
  for (size_t i = 0; i < wide.size(); ++i) {
    CHECK(static_cast<float>(narrow[i]) == static_cast<float>(BFloat16(wide[i])));
  }
}

TEST_CASE("names of TensorFlow, NVIDIA and old releases become today's") {
  const auto tf = [](const char* name) {
    return CanonicalWeightName(name, WeightFormat::kTensorFlow);
  };
  CHECK(tf("bert/encoder/layer_11/attention/self/query/kernel") ==
        "bert.encoder.layer.11.attention.self.query.weight");
  CHECK(tf("bert/encoder/layer_0/attention/output/LayerNorm/gamma") ==
        "bert.encoder.layer.0.attention.output.LayerNorm.weight");
  CHECK(tf("bert/embeddings/token_type_embeddings") ==
        "bert.embeddings.token_type_embeddings.weight");
  CHECK(tf("cls/predictions/transform/LayerNorm/beta") ==
        "cls.predictions.transform.LayerNorm.bias");
  CHECK(tf("cls/predictions/output_bias") == "cls.predictions.bias");
  CHECK(tf("cls/seq_relationship/output_weights") == "cls.seq_relationship.weight");
  CHECK(tf("cls/squad/output_weights") == "qa_outputs.weight");
  CHECK(tf("output_weights") == "classifier.weight");
  CHECK(tf("output_bias") == "classifier.bias");
  CHECK(tf("bert/pooler/dense/kernel/adam_v").empty());
  CHECK(tf("global_step").empty());
  const auto torch = [](const char* name) {
    return CanonicalWeightName(name, WeightFormat::kTorch);
  };
  CHECK(torch("module.bert.pooler.dense_act.weight") == "bert.pooler.dense.weight");
  CHECK(torch("bert.embeddings.LayerNorm.gamma") == "bert.embeddings.LayerNorm.weight");
  CHECK(torch("bert.embeddings.position_ids").empty());
}

}  // namespace
}  // namespace dtrain
