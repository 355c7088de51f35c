// merges_files_test.cc - vocab.json and merges.txt: the ids of RobertaTokenizer, and refused files.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/merges_files.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/tokenizers/byte_bpe.h"
#include "dtrain/tokenizers/text_tokenizer.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

const Json& Folders() {
  static const Json golden = Json::parse(ReadTestFile(testing::GoldenPath("merges.json")));
  return golden["folders"];
}

// All folders have the vocabulary of the first.
Json FilesOf(const Json& folder) {
  Json files = Folders()[0]["files"];
  files.update(folder["files"]);
  return files;
}

void Write(const TemporaryFolder& folder, const Json& files) {
  for (const auto& [name, text] : files.items()) {
    WriteTestFile(folder.File(name), text.get<std::string>());
  }
}

TEST_CASE("difficult texts and pairs get the ids of RobertaTokenizer") {
  REQUIRE(Folders().size() == 6);
  for (const Json& golden : Folders()) {
    INFO(golden["name"]);
    const TemporaryFolder folder;
    Write(folder, FilesOf(golden));
    const auto bytes = ByteBpeTokenizer::Load(folder.File("vocab.json"));
    INFO(bytes.status().message());
    REQUIRE(bytes.ok());
    CHECK(bytes->vocab_size() == golden["size"]);
    ByteBpeEncoder encoder(*bytes);
    REQUIRE(golden["cases"].size() > 100);
    for (const Json& example : golden["cases"]) {
      INFO(example[0]);
      Ids ids;
      encoder.Encode(example[0].get<std::string>(), ids);
      CHECK(ids == example[1].get<Ids>());
    }
    const TextTokenizer tokenizer = TextTokenizer::Load(folder.File("vocab.json")).value();
    CHECK(tokenizer.kind() == "byte-level BPE");
    CHECK(tokenizer.cls_id() == golden["cls"]);
    CHECK(tokenizer.sep_id() == golden["sep"]);
    TextBatchEncoder rows(tokenizer, 1);
    for (const Json& pair : golden["pairs"]) {
      INFO(pair);
      const auto first = pair[0].get<std::string>();
      const auto second = pair[1].get<std::string>();
      const std::vector<std::string_view> firsts = {first};
      const std::vector<std::string_view> seconds = {second};
      CHECK(Ids(rows.Encode(firsts, seconds, {}).ids) == pair[2].get<Ids>());
    }
  }
}

// The texts of the first folder's files.
internal::MergesFiles Plain() {
  const Json& files = Folders()[0]["files"];
  return {.folder = "d", .pieces = files["vocab.json"], .merges = files["merges.txt"]};
}

TEST_CASE("a tokenizer's hash is that of what decides ids") {
  const auto hash_of = [](const internal::MergesFiles& files) {
    return ByteBpeTokenizer::FromMerges(files).value().Hash();
  };
  internal::MergesFiles files = Plain();
  const uint64_t hash = hash_of(files);
  files.settings = R"({"model_max_length": 512, "mask_token": "<mask>"})";
  CHECK(hash_of(files) == hash);
  files.settings = R"({"add_prefix_space": true})";
  CHECK(hash_of(files) != hash);
  files.settings = R"({"mask_token": {"content": "<mask>", "lstrip": true}})";
  CHECK(hash_of(files) != hash);
  files.settings = "";
  files.added_tokens = R"({"<ent>": 403})";
  CHECK(hash_of(files) != hash);
  files = Plain();
  files.merges.erase(files.merges.rfind('\n', files.merges.size() - 2) + 1);
  CHECK(hash_of(files) != hash);
}

TEST_CASE("files that cannot give the model's ids are refused by their names") {
  const auto refused = [](const internal::MergesFiles& files, const std::string& words) {
    const auto tokenizer = ByteBpeTokenizer::FromMerges(files);
    REQUIRE_FALSE(tokenizer.ok());
    CHECK(tokenizer.status().code() == ExitCode::kData);
    CHECK_THAT(std::string(tokenizer.status().message()), Catch::StartsWith(words));
  };
  const auto with_pieces = [](const std::function<void(Json&)>& change) {
    internal::MergesFiles files = Plain();
    Json pieces = Json::parse(files.pieces);
    change(pieces);
    files.pieces = pieces.dump();
    return files;
  };
  const auto with = [](std::string internal::MergesFiles::*member, const std::string& text) {
    internal::MergesFiles files = Plain();
    files.*member = text;
    return files;
  };
  using Files = internal::MergesFiles;
  const std::string pieces = Plain().pieces;
  const std::string merges = Plain().merges;

  refused(with(&Files::pieces, pieces.substr(0, pieces.size() / 2)), "d/vocab.json: is no JSON");
  refused(with(&Files::pieces, "[]"), "d/vocab.json: is no JSON object");
  refused(with_pieces([](Json& all) { all["<mask>"] = 7; }), "d/vocab.json: pieces \"");
  refused(with_pieces([](Json& all) { all["<mask>"] = 403; }),
          "d/vocab.json: piece \"<mask>\" has the id 403");
  refused(with_pieces([](Json& all) { all["<mask>"] = "x"; }),
          "d/vocab.json: piece \"<mask>\" has the id \"x\"");

  refused(with(&Files::merges, merges.substr(0, merges.rfind('\n', merges.size() / 2) + 1)),
          "d/merges.txt: makes only ");
  refused(with(&Files::merges, ""), "d/merges.txt: makes only 0 of the ");
  refused(with(&Files::merges, "#version: 0.2\na b c\n"), "d/merges.txt:2: \"a b c\" is no pair");
  refused(with(&Files::merges, "#version: 0.2\n\n"), "d/merges.txt:2: \"\" is no pair");
  refused(with(&Files::merges, merges + "zzz q\n"), "d/merges.txt:142: \"zzz\" is no piece");
  refused(with(&Files::merges, merges + "q Q\n"), "d/merges.txt:142: \"qQ\" is no piece");

  refused(with(&Files::settings, "{"), "d/tokenizer_config.json: is no JSON object");
  refused(with(&Files::settings, R"({"tokenizer_class": "GPT2Tokenizer"})"),
          "d/tokenizer_config.json: tokenizer_class \"GPT2Tokenizer\" is not known");
  refused(with(&Files::settings, R"({"split_special_tokens": true})"),
          "d/tokenizer_config.json: split_special_tokens");
  refused(with(&Files::settings, R"({"mask_token": {}})"),
          "d/tokenizer_config.json: mask_token is no token");
  refused(with(&Files::settings, R"({"sep_token": null})"), "d/vocab.json: the settings beside it");
  refused(with(&Files::settings, R"({"added_tokens_decoder": {"x": "<a>"}})"),
          "d/tokenizer_config.json: added_tokens_decoder: x is no id");
  refused(with(&Files::settings, R"({"added_tokens_decoder": {"7": "<mask>"}})"),
          "d/vocab.json: the token \"<mask>\" has the id 7");
  refused(with(&Files::special_tokens, "[1]"), "d/special_tokens_map.json: is no JSON object");
  refused(with(&Files::added_tokens, R"({"<ent>": 405})"),
          "d/vocab.json: the token \"<ent>\" has the id 405 in added_tokens.json; beside this "
          "vocabulary of 403 pieces it is 403");
  refused(with(&Files::added_tokens, R"({"<a>": 403, "<b>": 403})"),
          "d/added_tokens.json: \"<b>\"");
}

TEST_CASE("a vocab.json without a merges.txt is refused by the missing file's name") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("vocab.json"), Plain().pieces);
  const auto tokenizer = TextTokenizer::Load(folder.File("vocab.json"));
  REQUIRE_FALSE(tokenizer.ok());
  CHECK_THAT(std::string(tokenizer.status().message()),
             Catch::StartsWith(folder.File("merges.txt")));
}

}  // namespace
}  // namespace dtrain
