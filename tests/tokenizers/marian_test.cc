// marian_test.cc - the ids of transformers' MarianTokenizer, its texts, and refused files.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/marian.h"

#include <cstdint>
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
using Texts = std::vector<std::string>;

std::string Folder() { return testing::GoldenPath("opus_tiny"); }
Json Golden() { return Json::parse(ReadTestFile(Folder() + "/golden.json")); }

MarianFiles Files() {
  return {.source_spm = ReadTestFile(Folder() + "/source.spm"),
          .target_spm = ReadTestFile(Folder() + "/target.spm"),
          .vocabulary = ReadTestFile(Folder() + "/vocab.json"),
          .config = ReadTestFile(Folder() + "/tokenizer_config.json")};
}

MarianTokenizer Load() {
  const auto tokenizer = MarianTokenizer::Load(Folder());
  INFO(tokenizer.status().message());
  REQUIRE(tokenizer.ok());
  return *tokenizer;
}

TEST_CASE("sources and targets get the ids of transformers, special tokens and languages too") {
  const Json golden = Golden();
  const MarianTokenizer tokenizer = Load();
  MarianEncoder encoder(tokenizer);
  REQUIRE(golden["texts"].size() > 30);
  for (size_t i = 0; i < golden["texts"].size(); ++i) {
    INFO(golden["texts"][i]);
    for (const auto& [side, key] :
         {std::pair(MarianSide::kSource, "ids"), std::pair(MarianSide::kTarget, "target_ids")}) {
      Ids ids = {5};
      encoder.Encode(golden["texts"][i].get<std::string>(), side, ids);
      ids.push_back(tokenizer.eos_id());
      Ids expected = golden[key][i];
      expected.insert(expected.begin(), 5);
      CHECK(ids == expected);
    }
  }
}

TEST_CASE("ids become the texts that transformers makes of them") {
  const Json golden = Golden();
  const MarianTokenizer tokenizer = Load();
  for (size_t i = 0; i < golden["texts"].size(); ++i) {
    INFO(golden["texts"][i]);
    CHECK(tokenizer.Decode(golden["target_ids"][i].get<Ids>()) ==
          golden["decoded"][i].get<std::string>());
  }
}

TEST_CASE("a batch gives each line's ids by its side, on any number of threads") {
  const Json golden = Golden();
  const auto texts = golden["texts"].get<Texts>();
  Texts pairs;
  for (const std::string& text : texts) pairs.insert(pairs.end(), {text, text});
  for (const int threads : {1, 3}) {
    MarianBatchEncoder encoder(Load(), threads);
    const EncodedLines both = encoder.Encode(pairs, MarianLines::kPairs);
    const EncodedLines sources = encoder.Encode(texts, MarianLines::kSources);
    const EncodedLines targets = encoder.Encode(texts, MarianLines::kTargets);
    for (size_t i = 0; i < texts.size(); ++i) {
      INFO(threads << " " << texts[i]);
      const auto ids_of = [](const EncodedLines& lines, size_t line) {
        Ids ids(lines.line(line).begin(), lines.line(line).end());
        ids.push_back(0);
        return ids;
      };
      CHECK(ids_of(sources, i) == golden["ids"][i].get<Ids>());
      CHECK(ids_of(targets, i) == golden["target_ids"][i].get<Ids>());
      CHECK(ids_of(both, 2 * i) == golden["ids"][i].get<Ids>());
      CHECK(ids_of(both, 2 * i + 1) == golden["target_ids"][i].get<Ids>());
    }
  }
}

TEST_CASE("the special tokens are those of tokenizer_config.json, or the usual ones") {
  const MarianTokenizer tokenizer = Load();
  CHECK(tokenizer.eos_id() == 0);
  CHECK(tokenizer.unk_id() == 1);
  CHECK(tokenizer.pad_id() == tokenizer.vocab_size() - 1);
  CHECK(tokenizer.Piece(tokenizer.pad_id()) == "<pad>");
  CHECK(tokenizer.IdOf(">>nld<<") == tokenizer.pad_id() - 1);
  CHECK(tokenizer.IdOf("no such piece") == -1);

  MarianFiles files = Files();
  files.config = "";
  CHECK(MarianTokenizer::FromFiles(files, "m")->Hash() == tokenizer.Hash());
  files.config = R"({"eos_token": {"content": ">>nld<<"}})";
  const auto other = MarianTokenizer::FromFiles(files, "m");
  REQUIRE(other.ok());
  CHECK(other->eos_id() == tokenizer.IdOf(">>nld<<"));
  CHECK(other->Hash() != tokenizer.Hash());
}

TEST_CASE("another piece or another model of SentencePiece is another tokenizer") {
  const uint64_t hash = Load().Hash();
  MarianFiles files = Files();
  std::swap(files.source_spm, files.target_spm);
  CHECK(MarianTokenizer::FromFiles(files, "m")->Hash() != hash);
  files = Files();
  Json vocabulary = Json::parse(files.vocabulary);
  std::swap(vocabulary[">>deu<<"], vocabulary[">>nld<<"]);
  files.vocabulary = vocabulary.dump();
  CHECK(MarianTokenizer::FromFiles(files, "m")->Hash() != hash);
  // Its layout is none of the tokenizer.
  files.vocabulary = Json::parse(Files().vocabulary).dump(4);
  CHECK(MarianTokenizer::FromFiles(files, "m")->Hash() == hash);
}

TEST_CASE("files that are missing, damaged or of another tokenizer are refused by name") {
  const auto refused = [](const std::function<void(MarianFiles&)>& change) {
    MarianFiles files = Files();
    change(files);
    const auto tokenizer = MarianTokenizer::FromFiles(files, "m");
    REQUIRE_FALSE(tokenizer.ok());
    CHECK(tokenizer.status().code() == ExitCode::kData);
    return std::string(tokenizer.status().message());
  };
  const auto with = [](const std::string& key, const Json& value) {
    return [=](MarianFiles& files) {
      Json config = Json::parse(files.config);
      config[key] = value;
      files.config = config.dump();
    };
  };
  const auto vocabulary = [](const std::string& text) {
    return [=](MarianFiles& files) { files.vocabulary = text; };
  };
  CHECK_THAT(refused(vocabulary("[]")), Catch::StartsWith("m/vocab.json: "));
  CHECK_THAT(refused(vocabulary(R"({"a": 0, "b": 0})")), Catch::Contains("both have the id 0"));
  CHECK_THAT(refused(vocabulary(R"({"a": 700000000})")), Catch::Contains("has the id 700000000"));
  CHECK(refused(vocabulary(R"({"</s>": 0, "<pad>": 1})")) ==
        "m/vocab.json: lacks the special token \"<unk>\"");
  CHECK(refused(with("pad_token", "[PAD]")) == "m/vocab.json: lacks the special token \"[PAD]\"");
  CHECK(refused(with("separate_vocabs", true)) ==
        "m/tokenizer_config.json: separate_vocabs is true, but target_vocab.json is missing; fetch "
        "the model again");
  CHECK_THAT(refused(with("sp_model_kwargs", {{"enable_sampling", true}})),
             Catch::Contains("sp_model_kwargs {\"enable_sampling\":true} is not known"));
  CHECK_THAT(refused(with("added_tokens_decoder", {{"300", {{"content", "<x>"}}}})),
             Catch::Contains("\"<x>\" with the id 300 is not in vocab.json"));
  CHECK_THAT(
      refused(with("added_tokens_decoder", {{"0", {{"content", "</s>"}, {"lstrip", true}}}})),
      Catch::Contains("lstrip of \"</s>\" is not known"));
  CHECK_THAT(refused([](MarianFiles& files) { files.config = "{"; }),
             Catch::StartsWith("m/tokenizer_config.json: is no JSON object"));
  CHECK_THAT(refused([](MarianFiles& files) { files.source_spm.resize(100); }),
             Catch::StartsWith("m/source.spm: "));
  CHECK_THAT(refused([](MarianFiles& files) { files.target_spm = ""; }),
             Catch::StartsWith("m/target.spm: "));
}

// A vocabulary for each language.
MarianFiles SeparateFiles() {
  const auto read = [](const std::string& name) {
    return ReadTestFile(testing::GoldenPath("opus_separate/" + name));
  };
  return {.source_spm = read("source.spm"),
          .target_spm = read("target.spm"),
          .vocabulary = read("vocab.json"),
          .config = read("tokenizer_config.json"),
          .target_vocabulary = read("target_vocab.json")};
}

TEST_CASE("languages may have vocabularies of their own, with the same special tokens") {
  const auto tokenizer = MarianTokenizer::FromFiles(SeparateFiles(), "m");
  INFO(tokenizer.status().message());
  REQUIRE(tokenizer.ok());
  CHECK(tokenizer->has_separate_vocabularies());
  CHECK(tokenizer->vocab_size(MarianSide::kSource) == 92);
  CHECK(tokenizer->vocab_size() == 100);
  CHECK(tokenizer->IdOf(">>deu<<", MarianSide::kSource) == 90);
  CHECK(tokenizer->IdOf(">>deu<<") == -1);
  CHECK(tokenizer->Piece(90, MarianSide::kSource) == ">>deu<<");
  CHECK_FALSE(Load().has_separate_vocabularies());
  const auto refused = [](const std::function<void(Json&)>& change) {
    MarianFiles files = SeparateFiles();
    Json vocabulary = Json::parse(files.target_vocabulary);
    change(vocabulary);
    files.target_vocabulary = vocabulary.dump();
    return std::string(MarianTokenizer::FromFiles(files, "m").status().message());
  };
  CHECK_THAT(refused([](Json& vocabulary) { vocabulary = Json::array(); }),
             Catch::StartsWith("m/target_vocab.json: "));
  CHECK(refused([](Json& vocabulary) { std::swap(vocabulary["<pad>"], vocabulary["<unk>"]); }) ==
        "m/vocab.json: lacks the special token \"<unk>\", or target_vocab.json has it with another "
        "id");
  MarianFiles files = SeparateFiles();
  Json vocabulary = Json::parse(files.target_vocabulary);
  vocabulary["another"] = 100;
  files.target_vocabulary = vocabulary.dump();
  CHECK(MarianTokenizer::FromFiles(files, "m")->Hash() != tokenizer->Hash());
}

TEST_CASE("a folder without one of the files, or with one too many, is refused") {
  const TemporaryFolder folder;
  for (const std::string name : {"source.spm", "target.spm", "vocab.json"}) {
    const Status status = MarianTokenizer::Load(folder.path()).status();
    CHECK(status.code() == ExitCode::kData);
    CHECK_THAT(std::string(status.message()), Catch::Contains(folder.File(name)));
    WriteTestFile(folder.File(name), ReadTestFile(Folder() + "/" + name));
  }
  CHECK(MarianTokenizer::Load(folder.path()).ok());
  WriteTestFile(folder.File("target_vocab.json"), "{}");
  CHECK_THAT(std::string(MarianTokenizer::Load(folder.path()).status().message()),
             Catch::Contains("vocab.json: "));
  std::filesystem::remove(folder.File("target_vocab.json"));
  WriteTestFile(folder.File("target_vocab.json"), ReadTestFile(folder.File("vocab.json")));
  CHECK_THAT(std::string(MarianTokenizer::Load(folder.path()).status().message()),
             Catch::Contains("separate_vocabs is not true, but target_vocab.json is there"));
}

TEST_CASE("bytes that are no UTF-8 are U+FFFD, which no special token hides") {
  MarianEncoder encoder(Load());
  Ids broken, mended;
  encoder.Encode("a\xFF</s>\xC3", MarianSide::kSource, broken);
  encoder.Encode("a\xEF\xBF\xBD</s>\xEF\xBF\xBD", MarianSide::kSource, mended);
  CHECK(broken == mended);
  CHECK(broken.size() == 6);
}

}  // namespace
}  // namespace dtrain
