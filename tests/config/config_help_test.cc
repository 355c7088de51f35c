// config_help_test.cc - --help_config prints every field with its default and its comment.
// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <string>

#include "dtrain/classification.pb.h"
#include "dtrain/config/config.h"
#include "dtrain/nmt.pb.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

const proto::NmtConfig& Type() { return proto::NmtConfig::default_instance(); }

TEST_CASE("help for one field shows default, type, range, unit and comment") {
  const StatusOr<std::string> text = DescribeConfig(Type(), "model.hidden_size");
  REQUIRE(text.ok());
  CHECK(*text ==
        "model.hidden_size=512  (int32, units, at least 2, at most 65536)\n"
        "    Width of embeddings and of every layer's output; a multiple of num_heads.\n");
}

TEST_CASE("a field's default is text for the help of a tool's flag") {
  CHECK(DefaultText(Type(), "data.vocab_size") == "8000");
  CHECK(DefaultText(Type(), "data.cleaning.drop_copies") == "false");
  CHECK(DefaultText(Type(), "data.train_source") == "[]");
  proto::NmtConfig config;
  REQUIRE(ApplyOverride("data.train_source=/a,/b", config).ok());
  CHECK(DefaultText(config, "data.train_source") == "[\"/a\",\"/b\"]");
  CHECK(DefaultText(Type(), "data.dev_tsv") == "\"\"");
  CHECK_THROWS(DefaultText(Type(), "data.no_such_field"));
}

TEST_CASE("help for an enum explains its values") {
  const StatusOr<std::string> text = DescribeConfig(Type(), "model.norm");
  REQUIRE(text.ok());
  CHECK_THAT(*text, Catch::StartsWith("model.norm=post  (post, pre)\n"));
  CHECK_THAT(*text, Catch::Contains("      pre: layer norm before each sublayer"));
}

TEST_CASE("help for a list of sections explains what each of them may have") {
  const StatusOr<std::string> text = DescribeConfig(Type(), "data.sources");
  REQUIRE(text.ok());
  CHECK_THAT(*text, Catch::StartsWith("data.sources=[]  (list of sections)\n    Training texts") &&
                        Catch::Contains("\n      source: [] (list of path): Text, source side.") &&
                        Catch::Contains("\n      weight: 1 (double, above 0, at most 1e+09): ") &&
                        Catch::Contains("\n      tag: \"\" (text): A piece"));
}

TEST_CASE("what travels is explained in words of its own, with the names of the products") {
  for (const google::protobuf::Message* type :
       {static_cast<const google::protobuf::Message*>(&Type()),
        static_cast<const google::protobuf::Message*>(
            &proto::ClassificationConfig::default_instance())}) {
    const StatusOr<std::string> wire = DescribeConfig(*type, "trainer.wire_precision");
    REQUIRE(wire.ok());
    CHECK_THAT(*wire, Catch::StartsWith("trainer.wire_precision=fp32  (fp32, bf16, fp16)\n"));
    CHECK_THAT(*wire, Catch::Contains("bf16: half the bytes"));
    CHECK_THAT(*wire, !Catch::Contains("products") && !Catch::Contains("master"));
  }
}

TEST_CASE("help for everything has a comment for every field and stays narrow") {
  const StatusOr<std::string> text = DescribeConfig(Type(), "");
  REQUIRE(text.ok());
  for (const std::string& key : ConfigKeys(*Type().GetDescriptor())) {
    const size_t place = text->find("\n" + key + "=");
    INFO(key);
    REQUIRE(place != std::string::npos);
    const size_t next = text->find('\n', place + 1);
    CHECK(text->compare(next + 1, 4, "    ") == 0);
  }
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 160);
  }
}

TEST_CASE("a key stands under the heading of its own section") {
  std::istringstream lines(*DescribeConfig(Type(), ""));
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) section = line.substr(1, line.find(']') - 1);
    if (line.empty() || line[0] == '[' || line[0] == ' ') continue;
    const std::string key = line.substr(0, line.find('='));
    INFO(key);
    CHECK(section == key.substr(0, key.rfind('.')));
  }
}

TEST_CASE("help for everything begins with the keys that are used most") {
  constexpr std::string_view kUsed[] = {"trainer.max_steps", "model.dropout"};
  const std::string all = *DescribeConfig(Type(), "");
  const std::string text = *DescribeConfig(Type(), "", kUsed);
  CHECK_THAT(text, Catch::StartsWith("[most_used] ") && Catch::EndsWith(all));
  const std::string most = text.substr(0, text.size() - all.size());
  CHECK(most.find("\ntrainer.max_steps=") < most.find("\nmodel.dropout="));
  CHECK(*DescribeConfig(Type(), "model", kUsed) == *DescribeConfig(Type(), "model"));
}

TEST_CASE("help for a section leaves the others out") {
  const StatusOr<std::string> text = DescribeConfig(Type(), "trainer.early_stop");
  REQUIRE(text.ok());
  CHECK_THAT(*text, Catch::Contains("trainer.early_stop.patience=0"));
  CHECK_THAT(*text, !Catch::Contains("trainer.seed"));
}

TEST_CASE("help for a section may be asked for with a dot at the end") {
  const StatusOr<std::string> text = DescribeConfig(Type(), "trainer.early_stop.");
  REQUIRE(text.ok());
  CHECK(*text == *DescribeConfig(Type(), "trainer.early_stop"));
  CHECK_FALSE(DescribeConfig(Type(), ".").ok());
}

TEST_CASE("help for an unknown key names the nearest one") {
  CHECK_FALSE(DescribeConfig(Type(), "data.sources.weight").ok());
  for (const char* key : {"modle", "model.dropuot", "model.dropout.x"}) {
    INFO(key);
    const StatusOr<std::string> text = DescribeConfig(Type(), key);
    REQUIRE_FALSE(text.ok());
    CHECK(text.status().code() == ExitCode::kUsage);
    CHECK_THAT(std::string(text.status().message()), Catch::Contains("did you mean model"));
  }
}

}  // namespace
}  // namespace dtrain
