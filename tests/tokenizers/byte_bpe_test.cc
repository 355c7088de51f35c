// byte_bpe_test.cc - the ids of Hugging Face's tokenizers for byte-level BPE, and refused files.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/byte_bpe.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

const Json& Golden() {
  static const Json golden = [] {
    std::ifstream file(testing::GoldenPath("byte_bpe.json"));
    REQUIRE(file.good());
    return Json::parse(file);
  }();
  return golden;
}

Ids IdsOf(ByteBpeEncoder& encoder, const std::string& text) {
  Ids ids;
  encoder.Encode(text, ids);
  return ids;
}

TEST_CASE("difficult texts get the ids that tokenizers gives them") {
  REQUIRE(Golden()["settings"].size() == 5);
  for (const Json& setting : Golden()["settings"]) {
    const auto tokenizer = ByteBpeTokenizer::FromJson(setting["file"].get<std::string>(), "file");
    INFO(setting["name"] << " " << tokenizer.status().message());
    REQUIRE(tokenizer.ok());
    ByteBpeEncoder encoder(*tokenizer);
    // Without room, too: then each word is merged anew.
    ByteBpeEncoder forgetful(*tokenizer, 0);
    REQUIRE(setting["cases"].size() > 150);
    for (const Json& example : setting["cases"]) {
      const auto text = example[0].get<std::string>();
      INFO(example[0]);
      CHECK(IdsOf(encoder, text) == example[1].get<Ids>());
      CHECK(IdsOf(encoder, text) == example[1].get<Ids>());  // from the cache
      CHECK(IdsOf(forgetful, text) == example[1].get<Ids>());
    }
  }
}

TEST_CASE("rows have the special tokens, types and cuts of tokenizers") {
  for (const Json& setting : Golden()["settings"]) {
    ByteBpeEncoder encoder(
        ByteBpeTokenizer::FromJson(setting["file"].get<std::string>(), "file").value());
    for (const Json& pair : setting["pairs"]) {
      INFO(setting["name"] << " " << pair);
      Ids ids;
      Ids types;
      encoder.EncodeRow(pair[0].get<std::string>(), pair[1].get<std::string>(), pair[2], ids,
                        types);
      CHECK(ids == pair[3].get<Ids>());
      CHECK(types == pair[4].get<Ids>());
    }
  }
}

// The first setting's file, changed.
std::string Changed(const std::function<void(Json&)>& change) {
  Json file = Json::parse(Golden()["settings"][0]["file"].get<std::string>());
  change(file);
  return file.dump();
}

ByteBpeTokenizer Roberta() {
  return ByteBpeTokenizer::FromJson(Changed([](Json&) {}), "file").value();
}

TEST_CASE("ids become the text again, and invalid bytes U+FFFD") {
  const ByteBpeTokenizer tokenizer = Roberta();
  ByteBpeEncoder encoder(tokenizer);
  const std::string text = "Der Dialog<mask> \xC3\xA4\xF0\x9F\x98\x80\n";
  CHECK(tokenizer.Decode(IdsOf(encoder, text)) == text);
  CHECK(tokenizer.Decode(IdsOf(encoder, "a\xFF z")) == "a\xEF\xBF\xBD z");
}

TEST_CASE("pieces have names, and names ids") {
  const ByteBpeTokenizer tokenizer = Roberta();
  CHECK(tokenizer.vocab_size() == 421);
  CHECK(tokenizer.Piece(0) == "<s>");
  CHECK(tokenizer.IdOf("<mask>") == 420);
  CHECK(tokenizer.IdOf("\xC4\xA0") > 3);  // U+0120, the space
  CHECK(tokenizer.IdOf("nowhere") == -1);
}

TEST_CASE("a text of a hundred thousand letters without a space takes no quadratic time") {
  ByteBpeEncoder encoder(Roberta());
  std::string text;
  for (int i = 0; i < 100000; ++i) text += static_cast<char>('a' + i * i % 7);
  CHECK(IdsOf(encoder, text).size() > 10000);
}

std::string ErrorOf(const std::string& text) {
  const auto tokenizer = ByteBpeTokenizer::FromJson(text, "t.json");
  REQUIRE(!tokenizer.ok());
  CHECK(tokenizer.status().code() == ExitCode::kData);
  return std::string(tokenizer.status().message());
}

TEST_CASE("a file that cannot give the model's ids is refused by the name of its field") {
  const auto refused = [](const std::function<void(Json&)>& change, const std::string& words) {
    CHECK_THAT(ErrorOf(Changed(change)), Catch::StartsWith("t.json: ") && Catch::Contains(words));
  };
  CHECK_THAT(ErrorOf("{"), Catch::Contains("is no tokenizer.json"));
  CHECK_THAT(ErrorOf("[1]"), Catch::Contains("is no tokenizer.json"));
  refused([](Json& f) { f["model"]["type"] = "Unigram"; }, "its model is no BPE but Unigram");
  refused([](Json& f) { f["normalizer"] = {{"type", "NFKC"}}; }, "normalizer NFKC is not known");
  refused(
      [](Json& f) {
        f["pre_tokenizer"] = {{"type", "Metaspace"}};
      },
      "pre_tokenizer Metaspace is not known");
  refused([](Json& f) { f["pre_tokenizer"] = nullptr; }, "pre_tokenizer null is not known");
  refused(
      [](Json& f) {
        f["post_processor"] = {{"type", "Odd"}};
      },
      "post_processor Odd is not known");
  refused([](Json& f) { f["post_processor"]["single"] = Json::array(); },
          "post_processor: single is no list");
  refused([](Json& f) { f["post_processor"]["special_tokens"]["<s>"]["ids"] = {4000}; },
          "post_processor: id 4000 is beyond the 421 pieces");
  refused([](Json& f) { f["model"]["vocab"] = Json::object(); }, "model.vocab");
  refused([](Json& f) { f["model"]["vocab"]["zz"] = 5; }, "both have the id 5");
  refused([](Json& f) { f["model"]["vocab"]["zz"] = 100000000; }, "has the id 100000000");
  refused([](Json& f) { f["model"]["vocab"]["zz"] = -1; }, "has the id -1");
  refused([](Json& f) { f["model"]["merges"][7] = "nothing"; }, "model.merges[7] is no pair");
  refused(
      [](Json& f) {
        f["model"]["merges"][7] = {"q", "q"};
      },
      "model.merges[7]: \"q\" and \"q\" are not both pieces, or not their join");
  refused([](Json& f) { f["model"]["merges"] = 3; }, "model.merges is no list");
  refused([](Json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, "model.end_of_word_suffix");
  refused([](Json& f) { f["added_tokens"][0]["id"] = "x"; }, "added_tokens");
  refused([](Json& f) { f["added_tokens"][0]["id"] = 2000000000; }, "has the id 2000000000");
  refused([](Json& f) { f["added_tokens"][0]["content"] = ""; }, "added_tokens");
}

TEST_CASE("a missing file is named") {
  const auto tokenizer = ByteBpeTokenizer::Load("/nowhere/tokenizer.json");
  REQUIRE(!tokenizer.ok());
  CHECK_THAT(std::string(tokenizer.status().message()), Catch::Contains("/nowhere/tokenizer.json"));
}

}  // namespace
}  // namespace dtrain
