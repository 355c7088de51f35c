// export_test.cc - the folder of an exported language model.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/export.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/formats/safetensors.h"
#include "dtrain/models/gpt.h"
#include "dtrain/tasks/pretraining/export.h"
#include "dtrain/tasks/registry.h"
#include "tasks/shared/saved_weights.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

GptOptions SmallOptions() {
  return {.vocab_size = 257,
          .hidden_size = 8,
          .num_layers = 2,
          .num_heads = 2,
          .ffn_size = 12,
          .max_positions = 16};
}

// A checkpoint as lm_train writes it, from random weights.
struct SavedModel {
  SavedModel() : model(SmallOptions()) {
    model.Allocate({}, DType::kFloat32, /*seed=*/3);
    Tensor weights = model.parameters().weights();  // biases, too
    for (int64_t i = 0; i < weights.elements(); ++i) {
      weights.data<float>()[i] += static_cast<float>(i % 13) / 64.0f;
    }
    testing::SaveWeights(
        model.parameters(),
        {{"config.textproto",
          "model { num_layers: 2 hidden_size: 8 num_heads: 2 ffn_size: 12 max_positions: 16 }\n"
          "data { max_length: 16 }\n"},
         {"tokens.txt", "bytes\n"}},
        folder.File("ckpt"));
  }
  TemporaryFolder folder;
  Gpt model;
};

std::vector<float> FloatsOf(const NamedTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

TEST_CASE("an exported language model has the tensors of GPT2LMHeadModel") {
  SavedModel run;
  const std::string out = run.folder.File("out");
  const auto result = ExportRunToHuggingFace(run.folder.path(), "", out);
  INFO(std::string(result.status().message()));
  REQUIRE(result.ok());
  CHECK(result->class_name == "GPT2LMHeadModel");
  const auto file = SafetensorsFile::Open(out + "/model.safetensors");
  REQUIRE(file.ok());
  CHECK(file->Find("lm_head.weight") == nullptr);  // tied
  const NamedTensor* const joined = file->Find("transformer.h.1.attn.c_attn.weight");
  REQUIRE(joined != nullptr);
  REQUIRE(joined->shape == std::vector<int64_t>{8, 24});
  const std::vector<float> values = FloatsOf(*joined);
  const char* const parts[] = {"q", "k", "v"};
  for (int64_t part = 0; part < 3; ++part) {
    const std::string name = std::string("transformer.h.1.attn.") + parts[part] + ".weight";
    const float* const own = run.model.parameters().Find(name)->master().data<float>();
    for (int64_t o = 0; o < 8; ++o) {
      for (int64_t i = 0; i < 8; ++i) {
        CHECK(values[static_cast<size_t>(i * 24 + part * 8 + o)] == own[o * 8 + i]);
      }
    }
  }
  const NamedTensor* const bias = file->Find("transformer.h.0.attn.c_attn.bias");
  REQUIRE(bias != nullptr);
  CHECK(FloatsOf(*bias)[8] ==
        run.model.parameters().Find("transformer.h.0.attn.k.bias")->master().data<float>()[0]);
  const NamedTensor* const fc = file->Find("transformer.h.0.mlp.c_fc.weight");
  REQUIRE(fc != nullptr);
  CHECK(fc->shape == std::vector<int64_t>{8, 12});
  for (const char* const name : {"transformer.wte.weight", "transformer.wpe.weight",
                                 "transformer.h.0.ln_1.weight", "transformer.ln_f.bias"}) {
    INFO(name);
    const NamedTensor* const tensor = file->Find(name);
    REQUIRE(tensor != nullptr);
    const Tensor& own = run.model.parameters().Find(name)->master();
    CHECK(FloatsOf(*tensor) ==
          std::vector<float>(own.data<float>(), own.data<float>() + own.elements()));
  }
}

TEST_CASE("an exported language model says its shape and how bytes become tokens") {
  const SavedModel run;
  const std::string out = run.folder.File("out");
  REQUIRE(ExportLanguageModelToHuggingFace(run.folder.path(), out).ok());
  const nlohmann::json config = nlohmann::json::parse(ReadTestFile(out + "/config.json"));
  CHECK(config.at("architectures") == nlohmann::json({"GPT2LMHeadModel"}));
  CHECK(config.at("activation_function") == "gelu_new");
  CHECK(config.at("vocab_size") == 257);
  CHECK(config.at("n_positions") == 16);
  CHECK(config.at("n_inner") == 12);
  CHECK(config.at("tie_word_embeddings") == true);
  const nlohmann::json tokenizer = nlohmann::json::parse(ReadTestFile(out + "/tokenizer.json"));
  const nlohmann::json& vocabulary = tokenizer.at("model").at("vocab");
  CHECK(vocabulary.size() == 257);
  // As GPT-2's own tokenizer writes bytes.
  CHECK(vocabulary.at("a") == 'a');
  CHECK(vocabulary.at("\u0120") == ' ');
  CHECK(vocabulary.at("\u010A") == '\n');
  CHECK(vocabulary.at("\u00C3") == 0xC3);
  CHECK(vocabulary.at("<|endoftext|>") == 256);
}

TEST_CASE("other programs refuse a language model's checkpoint") {
  const SavedModel run;
  const Status status =
      ExportPretrainingToHuggingFace(run.folder.path(), run.folder.File("x")).status();
  CHECK(status.code() == ExitCode::kUsage);
}

TEST_CASE("a checkpoint with a damaged shape is refused by name") {
  const SavedModel run;
  Gpt model(SmallOptions());
  model.Allocate({}, DType::kFloat32, /*seed=*/3);
  const TemporaryFolder folder;
  testing::SaveWeights(
      model.parameters(),
      {{"config.textproto", "model { num_layers: 2 hidden_size: 8 num_heads: 3 }\n"},
       {"tokens.txt", "bytes\n"}},
      folder.File("ckpt"));
  const Status status = ExportLanguageModelToHuggingFace(folder.path(), folder.File("x")).status();
  CHECK(status.code() == ExitCode::kStorage);
  CHECK_THAT(std::string(status.message()), Catch::Contains("model.num_heads (3)"));
}

}  // namespace
}  // namespace dtrain
