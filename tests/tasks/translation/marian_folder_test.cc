// marian_folder_test.cc - what a run takes from a published model's folder, and what it refuses.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/internal/marian_folder.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/formats/safetensors.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/ops/cast.h"
#include "dtrain/tasks/translation/export.h"
#include "dtrain/tasks/translation/translation_model.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Json = nlohmann::json;

// A copy of the golden model's folder, to be changed.
struct Folder {
  explicit Folder(const std::string& golden = "opus_tiny") {
    std::filesystem::copy(testing::GoldenPath(golden), path());
    std::filesystem::permissions(path(), std::filesystem::perms::owner_all);
  }
  std::string path() const { return temporary.File("model"); }
  std::string File(const std::string& name) const { return path() + "/" + name; }
  // Null removes the key.
  void Set(const std::string& name, const std::string& key, const Json& value) const {
    Json json = Json::parse(ReadTestFile(File(name)));
    if (value.is_null()) {
      json.erase(key);
    } else {
      json[key] = value;
    }
    std::filesystem::remove(File(name));
    WriteTestFile(File(name), json.dump());
  }
  TemporaryFolder temporary;
};

Status Read(const Folder& folder, proto::NmtConfig& config) {
  return internal::ReadMarianFolder(folder.path(), config);
}

TEST_CASE("a run takes shape, vocabulary and search of a published model") {
  const Folder folder;
  folder.Set("generation_config.json", "num_beams", 6);
  folder.Set("generation_config.json", "length_penalty", 0.5);
  folder.Set("generation_config.json", "renormalize_logits", true);
  proto::NmtConfig config;
  config.mutable_model()->set_dropout(0.3f);
  config.mutable_trainer()->set_beam_alpha(0.25f);
  const Status status = Read(folder, config);
  INFO(status.message());
  REQUIRE(status.ok());
  const proto::ModelConfig& model = config.model();
  CHECK(model.hidden_size() == 24);
  CHECK(model.encoder_layers() == 2);
  CHECK(model.decoder_layers() == 1);
  CHECK(model.num_heads() == 3);
  CHECK(model.ffn_size() == 40);
  CHECK(model.max_positions() == 96);
  CHECK(model.activation() == proto::ModelConfig::swish);
  CHECK(model.norm() == proto::ModelConfig::post);
  CHECK(model.output_bias());
  CHECK(model.learned_pad());
  CHECK(config.data().vocab_size() == 115);
  CHECK(config.trainer().beam_rules() == proto::TrainerConfig::transformers);
  CHECK(config.trainer().beam_size() == 6);
  CHECK(config.trainer().beam_renormalize());
  CHECK_FALSE(config.trainer().beam_early_stopping());
  // What the user sets stays.
  CHECK(model.dropout() == 0.3f);
  CHECK(config.trainer().beam_alpha() == 0.25f);
}

TEST_CASE("languages with vocabularies of their own have tables of their own") {
  for (const bool is_tied : {true, false}) {
    const Folder folder(is_tied ? "opus_separate" : "opus_untied");
    proto::NmtConfig config;
    const Status status = Read(folder, config);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK_FALSE(config.model().tie_embeddings());
    CHECK(config.model().tie_output() == is_tied);
    CHECK(config.model().learned_pad());
    const auto model = LoadTranslationModel(folder.path());
    REQUIRE(model.ok());
    CHECK(model->model->options().source_vocab() == 92);
    CHECK(model->model->options().vocab_size == 100);
    folder.Set("config.json", "decoder_vocab_size", 92);
    CHECK_THAT(std::string(Read(folder, config).message()),
               Catch::Contains("decoder_vocab_size is 92, but by the tokenizer of the folder"));
    folder.Set("config.json", "decoder_vocab_size", 100);
    folder.Set("config.json", "share_encoder_decoder_embeddings", true);
    folder.Set("config.json", "tie_word_embeddings", true);
    CHECK_THAT(std::string(Read(folder, config).message()),
               Catch::Contains("share_encoder_decoder_embeddings is true, but each language has"));
  }
}

TEST_CASE("a model with two vocabularies is exported as it was read") {
  for (const std::string name : {"opus_separate", "opus_untied"}) {
    const Folder folder(name);
    const auto read = LoadTranslationModel(folder.path());
    REQUIRE(read.ok());
    const std::string out = folder.temporary.File("out");
    const auto exported = ExportToHuggingFace(*read, out, {});
    INFO(exported.status().message());
    REQUIRE(exported.ok());
    for (const std::string file : {"vocab.json", "target_vocab.json", "source.spm", "target.spm",
                                   "tokenizer_config.json", "generation_config.json"}) {
      INFO(file);
      CHECK(ReadTestFile(out + "/" + file) == ReadTestFile(folder.File(file)));
    }
    const Json was = Json::parse(ReadTestFile(folder.File("config.json")));
    const Json is = Json::parse(ReadTestFile(out + "/config.json"));
    for (const char* const key : {"vocab_size", "decoder_vocab_size", "tie_word_embeddings",
                                  "share_encoder_decoder_embeddings", "pad_token_id"}) {
      INFO(key);
      CHECK(is.at(key) == was.at(key));
    }
    const auto again = LoadTranslationModel(out);
    REQUIRE(again.ok());
    CHECK(again->tokenizer->Hash() == read->tokenizer->Hash());
    Stream stream{Device{}};
    for (Parameter* parameter : read->model->parameters().all()) {
      INFO(parameter->name());
      Parameter* const other = again->model->parameters().Find(parameter->name());
      REQUIRE(other != nullptr);
      CHECK(Download<float>(other->master(), stream) ==
            Download<float>(parameter->master(), stream));
    }
  }
}

TEST_CASE("a row of <pad> that is zero stays zero, unless the user says otherwise") {
  const Folder folder;
  const auto learned_pad = [&](proto::NmtConfig config) {
    REQUIRE(Read(folder, config).ok());
    return config.model().learned_pad();
  };
  CHECK(learned_pad({}));
  const std::string path = folder.File("model.safetensors");
  {
    const auto file = SafetensorsFile::Open(testing::GoldenPath("opus_tiny/model.safetensors"));
    REQUIRE(file.ok());
    std::vector<NamedTensor> tensors(file->tensors().begin(), file->tensors().end());
    std::vector<std::byte> table;
    for (NamedTensor& tensor : tensors) {
      if (tensor.name != "model.shared.weight") continue;
      table.assign(tensor.data.begin(), tensor.data.end());
      std::fill(table.end() - 24 * sizeof(float), table.end(), std::byte{0});
      tensor.data = table;
    }
    std::filesystem::remove(path);
    REQUIRE(WriteSafetensors(path, tensors).ok());
  }
  CHECK_FALSE(learned_pad({}));
  proto::NmtConfig config;
  config.mutable_model()->set_learned_pad(true);
  CHECK(learned_pad(config));
}

TEST_CASE("an older folder has the search in config.json") {
  const Folder folder;
  std::filesystem::remove(folder.File("generation_config.json"));
  folder.Set("config.json", "num_beams", 2);
  folder.Set("config.json", "early_stopping", true);
  proto::NmtConfig config;
  REQUIRE(Read(folder, config).ok());
  CHECK(config.trainer().beam_size() == 2);
  CHECK(config.trainer().beam_early_stopping());
}

TEST_CASE("a model that dtrain does not compute is refused by the key that says so") {
  const std::pair<std::pair<const char*, Json>, const char*> cases[] = {
      {{"model_type", "t5"}, "model_type is \"t5\"; translations begin with models of the type"},
      {{"scale_embedding", nullptr}, "scale_embedding is false, not true"},
      {{"share_encoder_decoder_embeddings", 1}, "share_encoder_decoder_embeddings is 1, must be"},
      {{"tie_word_embeddings", false}, "tie_word_embeddings is false, but share_encoder_decoder"},
      {{"static_position_embeddings", false}, "static_position_embeddings is false"},
      {{"normalize_before", true}, "normalize_before is true"},
      {{"normalize_embedding", true}, "normalize_embedding is true"},
      {{"add_bias_logits", true}, "add_bias_logits is true"},
      {{"activation_function", "tanh"}, "activation_function is \"tanh\"; it may be swish"},
      {{"d_model", 25}, "d_model 25 is no even multiple of the 3 heads"},
      {{"d_model", 1e9}, "d_model is 1000000000.0, must be 2 to 65536"},
      {{"encoder_layers", 0}, "encoder_layers is 0, must be 1 to 1000"},
      {{"decoder_attention_heads", 4}, "encoder_attention_heads is 3, but decoder_attention_heads"},
      {{"decoder_ffn_dim", 41}, "encoder_ffn_dim is 40, but decoder_ffn_dim is 41"},
      {{"vocab_size", 116}, "vocab_size is 116, but by the tokenizer of the folder it is 115"},
      {{"decoder_vocab_size", 90}, "decoder_vocab_size is 90, but by the tokenizer"},
      {{"eos_token_id", 2}, "eos_token_id is 2, but by the tokenizer of the folder it is 0"},
      {{"pad_token_id", 3}, "pad_token_id is 3, but by the tokenizer of the folder it is 114"},
      {{"decoder_start_token_id", 0}, "decoder_start_token_id is 0, but by the tokenizer"},
      {{"dropout", 1.5}, "dropout is 1.5, must be at least 0 and below 1"}};
  for (const auto& [change, message] : cases) {
    const Folder folder;
    folder.Set("config.json", change.first, change.second);
    proto::NmtConfig config;
    const Status status = Read(folder, config);
    INFO(change.first);
    REQUIRE_FALSE(status.ok());
    CHECK(status.code() == ExitCode::kStorage);
    CHECK_THAT(std::string(status.message()),
               Catch::StartsWith(folder.File("config.json") + ": " + message));
  }
  const std::pair<const char*, Json> searches[] = {{"num_beams", 0},
                                                   {"length_penalty", -1.0},
                                                   {"early_stopping", "never"},
                                                   {"renormalize_logits", 1}};
  for (const auto& [key, value] : searches) {
    const Folder folder;
    folder.Set("generation_config.json", key, value);
    proto::NmtConfig config;
    CHECK_THAT(std::string(Read(folder, config).message()),
               Catch::StartsWith(folder.File("generation_config.json") + ": " + key + " is "));
  }
}

TEST_CASE("a folder that is not there or lacks files is named") {
  const Folder folder;
  proto::NmtConfig config;
  CHECK_THAT(std::string(internal::ReadMarianFolder("opus-mt-en-de", config).message()),
             Catch::StartsWith("opus-mt-en-de: no such folder; check model.pretrained"));
  CHECK_THAT(std::string(internal::ReadMarianFolder(folder.temporary.path(), config).message()),
             Catch::Contains("holds no config.json"));
  std::filesystem::remove(folder.File("target.spm"));
  CHECK_THAT(std::string(Read(folder, config).message()),
             Catch::Contains(folder.File("target.spm")));
}

TEST_CASE("weights of another size, or half of them, are no model") {
  const Folder folder;
  folder.Set("config.json", "encoder_layers", 3);
  const Status missing = LoadTranslationModel(folder.path()).status();
  CHECK(missing.code() == ExitCode::kStorage);
  CHECK_THAT(std::string(missing.message()), Catch::Contains("missing model.encoder.layers.2."));
  folder.Set("config.json", "encoder_layers", 2);
  folder.Set("config.json", "encoder_ffn_dim", 48);
  folder.Set("config.json", "decoder_ffn_dim", 48);
  CHECK_THAT(std::string(LoadTranslationModel(folder.path()).status().message()),
             Catch::Contains("but the model's model.decoder.layers.0.fc2.weight is [24, 48]"));
  std::filesystem::remove(folder.File("model.safetensors"));
  CHECK_THAT(std::string(LoadTranslationModel(folder.path()).status().message()),
             Catch::StartsWith(folder.path()));
}

TEST_CASE("a checkpoint keeps the configurations that an export goes on from") {
  const Folder folder;
  const auto files = internal::ReadKeptFiles(folder.path());
  REQUIRE(files.ok());
  REQUIRE(files->size() == 2);
  CHECK((*files)[0].name == "pretrained_config.json");
  CHECK((*files)[0].contents == ReadTestFile(folder.File("config.json")));
  CHECK((*files)[1].name == "generation_config.json");
  // Of a checkpoint they are read under the names that they have there.
  const TemporaryFolder checkpoint;
  WriteTestFile(checkpoint.File("config.textproto"), "");
  WriteTestFile(checkpoint.File("config.json"), "another program's");
  CHECK(internal::ReadKeptFiles(checkpoint.path())->empty());
  WriteTestFile(checkpoint.File("pretrained_config.json"), "{}");
  CHECK(internal::ReadKeptFiles(checkpoint.path())->at(0).contents == "{}");
}

}  // namespace
}  // namespace dtrain
