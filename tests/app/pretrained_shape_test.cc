// pretrained_shape_test.cc - what a run takes from the files beside pretrained weights.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/internal/pretrained_shape.h"

#include <catch2/catch.hpp>
#include <string>

#include "dtrain/bert.pb.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using Data = proto::ClassificationDataConfig;

proto::BertConfig ConfigFor(const TemporaryFolder& folder) {
  proto::BertConfig config;
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
  proto::BertConfig config = ConfigFor(folder);
  REQUIRE(internal::TakePretrainedShape(config).ok());
  CHECK(config.model().num_layers() == 3);
  CHECK(config.model().hidden_size() == 96);
  CHECK(config.model().num_heads() == 4);
  CHECK(config.model().ffn_size() == 200);
  CHECK(config.model().max_positions() == 256);
  CHECK(config.model().activation() == proto::ModelConfig::gelu_tanh);
  CHECK(config.data().vocabulary() == folder.File("vocab.txt"));
  CHECK_FALSE(config.data().lower_case());
  CHECK(config.data().accents() == Data::with_capitals);

  proto::BertConfig own = ConfigFor(folder);
  own.mutable_data()->set_lower_case(true);
  own.mutable_data()->set_vocabulary("/other.txt");
  REQUIRE(internal::TakePretrainedShape(own).ok());
  CHECK(own.data().lower_case());
  CHECK(own.data().vocabulary() == "/other.txt");
}

TEST_CASE("accents are kept or taken off as the pretrained tokenizer does it") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n");
  const auto accents = [&](const std::string& json) {
    WriteTestFile(folder.File("tokenizer_config.json"), json);
    proto::BertConfig config = ConfigFor(folder);
    REQUIRE(internal::TakePretrainedShape(config).ok());
    return config.data().accents();
  };
  CHECK(accents(R"({"strip_accents": false})") == Data::keep);
  CHECK(accents(R"({"strip_accents": true})") == Data::strip);
  CHECK(accents("{}") == Data::with_capitals);
}

TEST_CASE("files beside pretrained weights that cannot be used are named") {
  const TemporaryFolder folder;
  const auto message = [&] {
    proto::BertConfig config = ConfigFor(folder);
    return std::string(MessageOf(internal::TakePretrainedShape(config)));
  };
  CHECK_THAT(message(), Catch::Contains("there is no vocab.txt beside the weights"));
  WriteTestFile(folder.File("vocab.txt"), "[UNK]\n");
  WriteTestFile(folder.File("tokenizer_config.json"), R"({"do_lower_case": "no"})");
  CHECK(message() ==
        folder.File("tokenizer_config.json") + ": do_lower_case is \"no\", must be true or false");
  WriteTestFile(folder.File("tokenizer_config.json"), "[]");
  CHECK_THAT(message(), Catch::Contains("is no JSON object"));
  WriteTestFile(folder.File("config.json"), R"({"model_type": "roberta"})");
  CHECK_THAT(message(), Catch::Contains("model_type is \"roberta\", not \"bert\""));
  WriteTestFile(folder.File("config.json"), R"({"num_hidden_layers": "six"})");
  CHECK_THAT(message(), Catch::Contains("num_hidden_layers is \"six\""));
}

}  // namespace
}  // namespace dtrain
