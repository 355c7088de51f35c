// pretrained_shape_test.cc - what a run takes from the files beside pretrained weights.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/pretrained_shape.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "dtrain/base/log.h"
#include "dtrain/classification.pb.h"
#include "dtrain/config/config.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/squad.pb.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using Data = proto::ClassificationDataConfig;

// With weights in the folder, which no shape is taken from.
proto::ClassificationConfig ConfigFor(const TemporaryFolder& folder) {
  WriteTestFile(folder.File("model.safetensors"), "");
  proto::ClassificationConfig config;
  config.mutable_model()->set_pretrained(folder.path());
  return config;
}

TEST_CASE("shape, vocabulary and case are those beside the weights") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("config.json"),
                R"({"model_type": "bert", "num_hidden_layers": 3, "hidden_size": 96,
                             "num_attention_heads": 4, "intermediate_size": 200,
                             "max_position_embeddings": 256, "hidden_act": "gelu_new"})");
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n");
  WriteTestFile(folder.File("tokenizer_config.json"),
                R"({"do_lower_case": false, "strip_accents": null})");
  proto::ClassificationConfig config = ConfigFor(folder);
  REQUIRE(internal::LoadPretrainedShape(config).ok());
  CHECK(config.model().num_layers() == 3);
  CHECK(config.model().hidden_size() == 96);
  CHECK(config.model().num_heads() == 4);
  CHECK(config.model().ffn_size() == 200);
  CHECK(config.model().max_positions() == 256);
  CHECK(config.model().activation() == proto::ModelConfig::gelu_tanh);
  CHECK(config.data().vocabulary() == folder.File("vocab.txt"));
  CHECK_FALSE(config.data().lower_case());
  CHECK(config.data().accents() == proto::Tokenization::with_capitals);

  // A folder without vocab.txt has a tokenizer.json.
  std::filesystem::remove(folder.File("vocab.txt"));
  WriteTestFile(folder.File("tokenizer.json"),
                R"({"model": {"type": "WordPiece", "vocab": {"[UNK]": 0}}})");
  proto::ClassificationConfig newer = ConfigFor(folder);
  REQUIRE(internal::LoadPretrainedShape(newer).ok());
  CHECK(newer.data().vocabulary() == folder.File("tokenizer.json"));
  std::filesystem::remove(folder.File("tokenizer.json"));

  // Or, beside byte-level BPE, a vocab.json and a merges.txt; one without the other is none.
  WriteTestFile(folder.File("vocab.json"), "{}");
  proto::ClassificationConfig half = ConfigFor(folder);
  CHECK_THAT(std::string(internal::LoadPretrainedShape(half).message()),
             Catch::Contains("no vocab.json with a merges.txt"));
  WriteTestFile(folder.File("merges.txt"), "");
  proto::ClassificationConfig older = ConfigFor(folder);
  REQUIRE(internal::LoadPretrainedShape(older).ok());
  CHECK(older.data().vocabulary() == folder.File("vocab.json"));
  std::filesystem::remove(folder.File("vocab.json"));
  std::filesystem::remove(folder.File("merges.txt"));
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n");

  proto::ClassificationConfig own = ConfigFor(folder);
  own.mutable_data()->set_lower_case(true);
  own.mutable_data()->set_vocabulary("/other.txt");
  REQUIRE(internal::LoadPretrainedShape(own).ok());
  CHECK(own.data().lower_case());
  CHECK(own.data().vocabulary() == "/other.txt");
}

TEST_CASE(
    "a vocabulary with other pieces than the weights' brings a warning that names the first") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("vocab.txt"), "[PAD]\n[unused0]\n[UNK]\nthe\nof\n");
  const auto warnings_with = [&](const std::string& pieces) {
    WriteTestFile(folder.File("own.txt"), pieces);
    proto::ClassificationConfig config = ConfigFor(folder);
    config.mutable_data()->set_vocabulary(folder.File("own.txt"));
    std::string warnings;
    SetLogSink([&](LogLevel level, std::string_view line) {
      if (level == LogLevel::kWarning) warnings += line;
    });
    CHECK(internal::LoadPretrainedShape(config).ok());
    SetLogSink(nullptr);
    CHECK(config.data().vocabulary() == folder.File("own.txt"));
    return warnings;
  };
  CHECK(warnings_with("[PAD]\n[unused0]\n[UNK]\nthe\nof\n").empty());
  // A word of one's own in place of a piece that no text has, and more behind the last one.
  CHECK(warnings_with("[PAD]\nheparin\n[UNK]\nthe\nof\nstent\n").empty());
  CHECK_THAT(warnings_with("[PAD]\n[unused0]\n[UNK]\nof\nthe\n"),
             Catch::StartsWith("2 pieces of data.vocabulary") &&
                 Catch::Contains("line 4 'of' in " + folder.File("own.txt")) &&
                 Catch::Contains("'the' in " + folder.File("vocab.txt")));
}

TEST_CASE("capitals and accents are those of the normalizer in a tokenizer.json") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("tokenizer.json"),
                R"({"normalizer": {"type": "BertNormalizer", "clean_text": true,
                    "handle_chinese_chars": true, "strip_accents": true, "lowercase": false},
                    "model": {"type": "WordPiece", "vocab": {"[UNK]": 0}}})");
  proto::ClassificationConfig config = ConfigFor(folder);
  REQUIRE(internal::LoadPretrainedShape(config).ok());
  CHECK_FALSE(config.data().lower_case());
  CHECK(config.data().accents() == proto::Tokenization::strip);
  // What the user says counts.
  proto::ClassificationConfig own = ConfigFor(folder);
  own.mutable_data()->set_lower_case(true);
  REQUIRE(internal::LoadPretrainedShape(own).ok());
  CHECK(own.data().lower_case());
  WriteTestFile(folder.File("tokenizer.json"), "no JSON");
  proto::ClassificationConfig broken = ConfigFor(folder);
  CHECK_THAT(std::string(internal::LoadPretrainedShape(broken).message()),
             Catch::Contains(folder.File("tokenizer.json")));
}

TEST_CASE("texts may be as long as the pretrained weights have positions") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("config.json"),
                R"({"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 8,
                             "num_attention_heads": 2, "intermediate_size": 8,
                             "max_position_embeddings": 1024})");
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n");
  proto::ClassificationConfig config = ConfigFor(folder);
  config.mutable_data()->set_max_length(1024);
  CHECK(internal::LoadPretrainedShape(config).ok());
  config.mutable_data()->set_max_length(1025);
  CHECK_THAT(std::string(internal::LoadPretrainedShape(config).message()),
             Catch::Contains("data.max_length (1025) exceeds the 1024 positions of"));
}

TEST_CASE("accents are kept or taken off as the pretrained tokenizer does it") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n");
  const auto accents = [&](const std::string& json) {
    WriteTestFile(folder.File("tokenizer_config.json"), json);
    proto::ClassificationConfig config = ConfigFor(folder);
    REQUIRE(internal::LoadPretrainedShape(config).ok());
    return config.data().accents();
  };
  CHECK(accents(R"({"strip_accents": false})") == proto::Tokenization::keep);
  CHECK(accents(R"({"strip_accents": true})") == proto::Tokenization::strip);
  CHECK(accents("{}") == proto::Tokenization::with_capitals);
}

// What a run takes from the checkpoint of another in the folder.
template <typename Theirs, typename Config>
void CheckTaken(Config config) {
  const TemporaryFolder folder;
  Theirs theirs;
  theirs.mutable_model()->set_num_layers(3);
  theirs.mutable_model()->set_hidden_size(96);
  theirs.mutable_model()->set_num_heads(4);
  theirs.mutable_model()->set_ffn_size(200);
  theirs.mutable_model()->set_activation(proto::ModelConfig::gelu_tanh);
  theirs.mutable_model()->set_layer_norm_epsilon(1e-5f);
  theirs.mutable_model()->set_max_positions(640);
  theirs.mutable_model()->set_type_vocab_size(3);
  theirs.mutable_model()->set_vocab_size(72);
  theirs.mutable_model()->set_dropout(0.3f);
  theirs.mutable_model()->set_mean_pooling(true);
  theirs.mutable_data()->set_lower_case(false);
  theirs.mutable_data()->set_accents(proto::Tokenization::strip);
  theirs.mutable_data()->set_tokenizer(proto::Tokenization::google);
  theirs.mutable_data()->set_max_length(77);
  theirs.mutable_data()->add_train("/texts");
  WriteTestFile(folder.File("config.textproto"), PrintConfig(theirs, ConfigFormat::kFull));
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n");
  config.mutable_model()->set_pretrained(folder.File("model.safetensors"));
  config.mutable_data()->set_max_length(100);
  Config own = config;
  REQUIRE(internal::LoadPretrainedShape(config).ok());
  const proto::BertModelConfig& model = config.model();
  CHECK(model.num_layers() == 3);
  CHECK(model.hidden_size() == 96);
  CHECK(model.num_heads() == 4);
  CHECK(model.ffn_size() == 200);
  CHECK(model.activation() == proto::ModelConfig::gelu_tanh);
  CHECK(model.layer_norm_epsilon() == 1e-5f);
  CHECK(model.max_positions() == 640);
  CHECK(model.type_vocab_size() == 3);
  CHECK(model.vocab_size() == 72);
  CHECK(model.dropout() == 0.1f);
  CHECK(model.mean_pooling());
  CHECK_FALSE(config.data().lower_case());
  CHECK(config.data().accents() == proto::Tokenization::strip);
  CHECK(config.data().tokenizer() == proto::Tokenization::google);
  CHECK(config.data().max_length() == 100);
  CHECK(config.data().train_size() == 0);
  CHECK(config.data().vocabulary() == folder.File("vocab.txt"));

  own.mutable_data()->set_lower_case(true);
  own.mutable_data()->set_accents(proto::Tokenization::with_capitals);
  own.mutable_data()->set_tokenizer(proto::Tokenization::hf);
  own.mutable_model()->set_mean_pooling(false);
  own.mutable_model()->set_pretrained(folder.path());
  REQUIRE(internal::LoadPretrainedShape(own).ok());
  CHECK(own.model().num_layers() == 3);
  CHECK_FALSE(own.model().mean_pooling());
  CHECK(own.data().lower_case());
  CHECK(own.data().accents() == proto::Tokenization::with_capitals);
  CHECK(own.data().tokenizer() == proto::Tokenization::hf);

  // Weights that were exported are what the JSON says.
  WriteTestFile(folder.File("config.json"), R"({"num_hidden_layers": 5})");
  proto::ClassificationConfig exported = ConfigFor(folder);
  REQUIRE(internal::LoadPretrainedShape(exported).ok());
  CHECK(exported.model().num_layers() == 5);
  CHECK(exported.data().lower_case());
}

TEST_CASE("a checkpoint of any program of BERT has its shape, case and tokenizer") {
  CheckTaken<proto::PretrainConfig>(proto::PretrainConfig());
  CheckTaken<proto::PretrainConfig>(proto::SquadConfig());
  CheckTaken<proto::PretrainConfig>(proto::ClassificationConfig());
  CheckTaken<proto::SquadConfig>(proto::ClassificationConfig());
  CheckTaken<proto::ClassificationConfig>(proto::SquadConfig());

  const TemporaryFolder folder;
  WriteTestFile(folder.File("config.textproto"), "model {\n num_layers: x }");
  proto::ClassificationConfig config = ConfigFor(folder);
  const Status broken = internal::LoadPretrainedShape(config);
  CHECK(broken.code() == ExitCode::kStorage);
  CHECK_THAT(std::string(broken.message()), Catch::Contains("config.textproto:2:14: "));
}

TEST_CASE("an estimate takes the shape from what is there, and pieces from config.json") {
  const TemporaryFolder folder;
  proto::SquadConfig nothing;
  nothing.mutable_model()->set_pretrained(folder.File("absent/model.safetensors"));
  CHECK_FALSE(internal::TryLoadPretrainedShape(nothing).value());
  CHECK(nothing.model().num_layers() == 12);

  WriteTestFile(folder.File("config.json"), R"({"num_hidden_layers": 3, "vocab_size": 77})");
  proto::SquadConfig config;
  config.mutable_model()->set_pretrained(folder.path());
  proto::SquadConfig other = config;
  CHECK(internal::TryLoadPretrainedShape(config).value());
  CHECK(config.model().num_layers() == 3);
  CHECK(config.model().vocab_size() == 77);
  CHECK(config.data().vocabulary().empty());
  // The table may have been padded: a vocabulary says it better.
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n");
  CHECK(internal::TryLoadPretrainedShape(other).value());
  CHECK(other.model().vocab_size() == 0);
  CHECK(other.data().vocabulary() == folder.File("vocab.txt"));
}

TEST_CASE("files beside pretrained weights that cannot be used are named") {
  const TemporaryFolder folder;
  const auto message = [&] {
    proto::ClassificationConfig config = ConfigFor(folder);
    return std::string(internal::LoadPretrainedShape(config).message());
  };
  CHECK_THAT(message(),
             Catch::Contains("beside the weights there is no tokenizer.json or vocab.txt"));
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n");
  WriteTestFile(folder.File("tokenizer_config.json"), R"({"do_lower_case": "no"})");
  CHECK(message() ==
        folder.File("tokenizer_config.json") + ": do_lower_case is \"no\", must be true or false");
  WriteTestFile(folder.File("tokenizer_config.json"), "[]");
  CHECK_THAT(message(), Catch::Contains("is no JSON object"));
  WriteTestFile(folder.File("config.json"), R"({"model_type": "deberta-v2"})");
  CHECK(message() == folder.File("config.json") +
                         ": model_type is \"deberta-v2\"; dtrain loads bert, distilbert, electra, "
                         "modernbert, roberta, xlm-roberta, and for nmt_train marian");
  WriteTestFile(folder.File("config.json"), R"({"num_hidden_layers": "six"})");
  CHECK_THAT(message(), Catch::Contains("num_hidden_layers is \"six\""));
}

TEST_CASE("weights that are not there are named as such before anything is built for them") {
  const TemporaryFolder folder;
  namespace fs = std::filesystem;
  const auto refusal = [&](const std::string& path) {
    proto::ClassificationConfig config;
    config.mutable_model()->set_pretrained(path);
    config.mutable_data()->set_vocabulary("/vocab.txt");
    return internal::LoadPretrainedShape(config);
  };
  fs::create_symlink(folder.File("nowhere"), folder.File("dangling"));
  WriteTestFile(folder.File("file"), "");
  for (const std::string& path : {folder.File("absent"), folder.File("dangling"),
                                  folder.File("file/model.safetensors"), std::string("absent")}) {
    const Status gone = refusal(path);
    CHECK(gone.code() == ExitCode::kUsage);
    CHECK_THAT(std::string(gone.message()),
               Catch::StartsWith(path + ": no such file or folder; check model.pretrained"));
  }
  fs::create_directory(folder.File("empty"));
  const Status empty = refusal(folder.File("empty"));
  CHECK(empty.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(empty.message()),
             Catch::Contains(folder.File("empty") + ": holds no weights"));

  fs::create_directories(folder.File("run/ckpt/step-00000007"));
  WriteTestFile(folder.File("run/config.textproto"), "");
  const Status run = refusal(folder.File("run"));
  CHECK(run.code() == ExitCode::kUsage);
  CHECK_THAT(
      std::string(run.message()),
      Catch::StartsWith(folder.File("run") + ": is a run directory; set model.pretrained to " +
                        folder.File("run/ckpt/last")));

  // A run's own files are not those of a folder in it that is missing.
  WriteTestFile(folder.File("run/vocab.txt"), "[UNK]\n");
  for (const std::string& path : {folder.File("run/hff"), folder.File("run/hf-1.5")}) {
    const Status typo = refusal(path);
    CHECK(typo.code() == ExitCode::kUsage);
    CHECK_THAT(std::string(typo.message()),
               Catch::StartsWith(path + ": no such file or folder; check model.pretrained"));
    proto::ClassificationConfig config;
    config.mutable_model()->set_pretrained(path);
    CHECK_FALSE(internal::TryLoadPretrainedShape(config).value());
  }

  // A TensorFlow checkpoint is named without what its files end with.
  WriteTestFile(folder.File("bert_model.ckpt.index"), "");
  CHECK(refusal(folder.File("bert_model.ckpt")).ok());

  if (::geteuid() == 0) {
    WARN("root may read everything: permissions are not tested");
    return;
  }
  fs::create_directory(folder.File("closed"));
  fs::permissions(folder.File("closed"), fs::perms::none);
  const Status closed = refusal(folder.File("closed"));
  CHECK(closed.code() == ExitCode::kStorage);
  CHECK_THAT(std::string(closed.message()), Catch::Contains("Permission denied"));
}

TEST_CASE("a run whose export was deleted goes on from its newest checkpoint") {
  const TemporaryFolder folder;
  namespace fs = std::filesystem;
  proto::ClassificationConfig theirs;
  for (const auto& [name, layers] :
       {std::pair{"run", 7}, {"run/ckpt/step-00000002", 2}, {"run/ckpt/step-00000010", 3}}) {
    fs::create_directories(folder.File(name));
    theirs.mutable_model()->set_num_layers(layers);
    WriteTestFile(folder.File(name + std::string("/config.textproto")),
                  PrintConfig(theirs, ConfigFormat::kFull));
    WriteTestFile(folder.File(name + std::string("/vocab.txt")), "[UNK]\n");
  }
  const auto layers = [&] {
    proto::ClassificationConfig config;
    config.mutable_model()->set_pretrained(folder.File("run/hf"));
    config.mutable_run()->set_run_dir(folder.File("run"));
    CHECK(std::string(internal::LoadPretrainedShape(config).message()) == "");
    return config.model().num_layers();
  };
  CHECK(layers() == 3);  // as where links cannot be made
  fs::create_directory_symlink("step-00000002", folder.File("run/ckpt/last"));
  CHECK(layers() == 2);
}

// What is said of a config.json beside a vocabulary and weights; "" where it is taken.
std::string RefusalOf(const TemporaryFolder& folder, const std::string& json) {
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n");
  WriteTestFile(folder.File("config.json"), json);
  proto::ClassificationConfig config = ConfigFor(folder);
  const Status status = internal::LoadPretrainedShape(config);
  if (!status.ok()) CHECK(status.code() == ExitCode::kStorage);
  return std::string(status.message());
}

TEST_CASE("a config.json of another encoder than this is refused") {
  const TemporaryFolder folder;
  const std::string path = folder.File("config.json");
  const auto message = [&](const std::string& json) { return RefusalOf(folder, json); };
  CHECK(message(R"({"position_embedding_type": "relative_key"})") ==
        path +
            ": position_embedding_type is \"relative_key\", not \"absolute\": dtrain computes no "
            "such encoder");
  CHECK(message(R"({"position_embedding_type": "absolute", "is_decoder": false})").empty());
  CHECK(message(R"({"position_embedding_type": null, "is_decoder": null})").empty());
  CHECK_THAT(message(R"({"is_decoder": true})"), Catch::Contains("is_decoder is true, not false"));
}

TEST_CASE("a checkpoint of another kind of model is refused before the data is read") {
  for (const auto& [mark, program] :
       {std::pair("vocab.spm", "nmt_train"), std::pair("tokens.txt", "lm_train")}) {
    const TemporaryFolder folder;
    WriteTestFile(folder.File("config.textproto"), "model { num_heads: 2 }\n");
    WriteTestFile(folder.File(mark), "");
    proto::ClassificationConfig config = ConfigFor(folder);
    const Status status = internal::LoadPretrainedShape(config);
    CHECK(status.code() == ExitCode::kUsage);
    CHECK(status.message() == "model.pretrained: " + folder.path() + " is a checkpoint of " +
                                  program +
                                  ", whose model is no BERT; give one of a program of BERT, or a "
                                  "BERT of Hugging Face's");
  }
}

TEST_CASE("config.json has the limits of the configuration") {
  const TemporaryFolder folder;
  const std::string path = folder.File("config.json");
  const auto message = [&](const std::string& json) { return RefusalOf(folder, json); };
  CHECK(message(R"({"num_hidden_layers": 1000000})") ==
        path + ": num_hidden_layers is 1000000, must be 1 to 1000");
  CHECK(message(R"({"hidden_size": 1099511627776})") ==
        path + ": hidden_size is 1099511627776, must be 2 to 65536");
  CHECK(message(R"({"hidden_size": 18446744073709551615})") ==
        path + ": hidden_size is 18446744073709551615, must be 2 to 65536");
  CHECK(message(R"({"intermediate_size": 0})") ==
        path + ": intermediate_size is 0, must be 1 to 1048576");
  CHECK(message(R"({"num_attention_heads": -1})") ==
        path + ": num_attention_heads is -1, must be 1 to 1024");
  CHECK(message(R"({"max_position_embeddings": 512.5})") ==
        path + ": max_position_embeddings is 512.5, must be 3 to 1048576");
  CHECK(message(R"({"type_vocab_size": 1025})") ==
        path + ": type_vocab_size is 1025, must be 1 to 1024");
  CHECK(message(R"({"type_vocab_size": 1})").empty());
  for (const std::string epsilon : {"0", "-1", "0.2", "1e-60", "\"small\""}) {
    CHECK_THAT(message("{\"layer_norm_eps\": " + epsilon + "}"),
               Catch::EndsWith(", must be above 0 and at most 0.1"));
  }
  CHECK(message(R"({"layer_norm_eps": 0.1})").empty());
}

// The shape that LoadPretrainedShape() takes from this config.json.
proto::BertModelConfig ShapeOf(const std::string& json) {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("config.json"), json);
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n");
  proto::ClassificationConfig config = ConfigFor(folder);
  config.mutable_data()->set_max_length(9);
  const Status status = internal::LoadPretrainedShape(config);
  INFO(status.message());
  REQUIRE(status.ok());
  return config.model();
}

TEST_CASE("each family's config.json has its own keys, and its own values where they are missing") {
  const proto::BertModelConfig distilled = ShapeOf(
      R"({"model_type": "distilbert", "dim": 96, "n_layers": 3, "n_heads": 4, "hidden_dim": 200,
          "activation": "relu", "max_position_embeddings": 60})");
  CHECK(distilled.family() == proto::BertModelConfig::distilbert);
  CHECK(distilled.hidden_size() == 96);
  CHECK(distilled.num_layers() == 3);
  CHECK(distilled.num_heads() == 4);
  CHECK(distilled.ffn_size() == 200);
  CHECK(distilled.type_vocab_size() == 0);
  CHECK(distilled.activation() == proto::ModelConfig::relu);
  CHECK(distilled.max_positions() == 60);

  const proto::BertModelConfig small = ShapeOf(R"({"model_type": "electra"})");
  CHECK(small.family() == proto::BertModelConfig::electra);
  CHECK(small.embedding_size() == 128);
  CHECK(small.hidden_size() == 256);
  CHECK(small.ffn_size() == 1024);
  CHECK(small.num_heads() == 4);
  CHECK(small.num_layers() == 12);

  // Texts begin behind the padding token's row.
  const proto::BertModelConfig roberta = ShapeOf(
      R"({"model_type": "roberta", "max_position_embeddings": 514, "type_vocab_size": 1,
          "layer_norm_eps": 1e-5})");
  CHECK(roberta.family() == proto::BertModelConfig::roberta);
  CHECK(roberta.position_offset() == 2);
  CHECK(roberta.max_positions() == 512);
  CHECK(roberta.type_vocab_size() == 1);
  CHECK(roberta.layer_norm_epsilon() == 1e-5f);
  CHECK(ShapeOf(R"({"model_type": "xlm-roberta", "pad_token_id": 4})").max_positions() == 507);
}

TEST_CASE("ModernBERT's windows and rotary positions are read in the words of both versions") {
  const proto::BertModelConfig newer = ShapeOf(
      R"({"model_type": "modernbert", "num_hidden_layers": 4, "hidden_size": 32,
          "num_attention_heads": 4, "local_attention": 8, "classifier_pooling": "mean",
          "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                          "full_attention"],
          "rope_parameters": {"full_attention": {"rope_theta": 5000.0, "rope_type": "default"},
                              "sliding_attention": {"rope_theta": 300.0}}})");
  CHECK(newer.family() == proto::BertModelConfig::modernbert);
  CHECK(newer.type_vocab_size() == 0);
  CHECK(newer.ffn_size() == 1152);
  CHECK(newer.max_positions() == 8192);
  CHECK(newer.layer_norm_epsilon() == 1e-5f);
  CHECK(newer.dropout() == 0.0f);
  CHECK(newer.attention_dropout() == 0.0f);
  CHECK(newer.classifier_dropout() == 0.0f);
  CHECK(newer.local_attention() == 8);
  CHECK(newer.whole_every() == 3);
  CHECK(newer.whole_theta() == 5000.0f);
  CHECK(newer.local_theta() == 300.0f);
  CHECK(newer.mean_pooling());

  const proto::BertModelConfig older = ShapeOf(
      R"({"model_type": "modernbert", "global_attn_every_n_layers": 2, "global_rope_theta": 7000,
          "local_rope_theta": 400.5})");
  CHECK(older.num_layers() == 22);
  CHECK(older.local_attention() == 128);
  CHECK(older.whole_every() == 2);
  CHECK(older.whole_theta() == 7000.0f);
  CHECK(older.local_theta() == 400.5f);
  CHECK_FALSE(older.mean_pooling());
}

TEST_CASE("a configuration stretches the positions of a ModernBERT, which has no table of them") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("config.json"),
                R"({"model_type": "modernbert", "max_position_embeddings": 1024,
                    "global_rope_theta": 10000, "local_rope_theta": 10000})");
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n");
  proto::ClassificationConfig config = ConfigFor(folder);
  config.mutable_model()->set_max_positions(8192);
  config.mutable_model()->set_whole_theta(160000.0f);
  REQUIRE(internal::LoadPretrainedShape(config).ok());
  CHECK(config.model().max_positions() == 8192);
  CHECK(config.model().whole_theta() == 160000.0f);
  CHECK(config.model().local_theta() == 10000.0f);

  // BERT's table has as many rows as the weights.
  WriteTestFile(folder.File("config.json"), R"({"max_position_embeddings": 256})");
  proto::ClassificationConfig bert = ConfigFor(folder);
  bert.mutable_model()->set_max_positions(512);
  REQUIRE(internal::LoadPretrainedShape(bert).ok());
  CHECK(bert.model().max_positions() == 256);
}

TEST_CASE("a ModernBERT with parts that are not computed is refused by their names") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& keys) {
    return RefusalOf(folder,
                     R"({"model_type": "modernbert", "num_hidden_layers": 2, )" + keys + "}");
  };
  for (const std::string key : {"attention_bias", "mlp_bias", "norm_bias", "classifier_bias"}) {
    CHECK_THAT(message("\"" + key + "\": true"), Catch::Contains(key + " is true, must be false"));
  }
  CHECK_THAT(message(R"("classifier_activation": "relu")"),
             Catch::Contains("classifier_activation is \"relu\""));
  CHECK_THAT(message(R"("layer_types": ["sliding_attention", "full_attention"])"),
             Catch::Contains("layer_types is"));
  CHECK_THAT(message(R"("layer_types": ["full_attention"])"), Catch::Contains("layer_types is"));
  CHECK_THAT(message(R"("layer_types": {"0": "full_attention"})"),
             Catch::Contains("layer_types is"));
  CHECK_THAT(message(R"("rope_scaling": {"factor": 2})"), Catch::Contains("rope_scaling is"));
  CHECK_THAT(message(R"("rope_parameters": {"full_attention": {"rope_type": "yarn"}})"),
             Catch::Contains("rope_type is \"yarn\""));
  CHECK_THAT(message(R"("global_rope_theta": "high")"),
             Catch::Contains("global_rope_theta is \"high\", must be a number above 1"));
  CHECK_THAT(message(R"("local_attention": 1)"), Catch::Contains("local_attention is 1"));
  CHECK_THAT(message(R"("hidden_size": 30, "num_attention_heads": 6)"),
             Catch::Contains("make heads of 5"));
  CHECK_THAT(message(R"("classifier_pooling": "max")"),
             Catch::Contains("classifier_pooling is \"max\", must be \"cls\" or \"mean\""));
}

TEST_CASE("a model from random weights gets what its family has in place of BERT's values") {
  proto::ClassificationConfig config;
  config.mutable_model()->set_family(proto::BertModelConfig::modernbert);
  config.mutable_model()->set_attention_dropout(0.2f);
  config.mutable_data()->set_vocabulary("/vocab.txt");
  REQUIRE(internal::LoadPretrainedShape(config).ok());
  CHECK(config.model().dropout() == 0.0f);
  CHECK(config.model().attention_dropout() == 0.2f);
  CHECK(config.model().layer_norm_epsilon() == 1e-5f);
  CHECK(config.model().type_vocab_size() == 0);
}

TEST_CASE("a RoBERTa from random weights begins behind the padding token's row") {
  proto::ClassificationConfig config;
  config.mutable_model()->set_family(proto::BertModelConfig::roberta);
  config.mutable_data()->set_vocabulary("/tokenizer.json");
  REQUIRE(internal::LoadPretrainedShape(config).ok());
  CHECK(config.model().position_offset() == 2);
  CHECK(config.model().max_positions() == 512);
}

TEST_CASE("a padding token that leaves no position is refused") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& json) { return RefusalOf(folder, json); };
  for (const std::string id : {"-1", "\"one\"", "null", "61"}) {
    CHECK_THAT(message(R"({"model_type": "roberta", "max_position_embeddings": 64,
                           "pad_token_id": )" +
                       id + "}"),
               Catch::Contains("pad_token_id is " + id));
  }
}

}  // namespace
}  // namespace dtrain
