// unigram_test.cc - the ids of Hugging Face's tokenizers and of SentencePiece, and refused files.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/unigram.h"

#include <cstdint>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;
using Pieces = std::vector<std::string>;

const Json& Golden() {
  static const Json golden = [] {
    std::ifstream file(testing::GoldenPath("unigram.json"));
    REQUIRE(file.good());
    return Json::parse(file);
  }();
  return golden;
}

std::string Base64(const std::string& text) {
  std::string bytes;
  REQUIRE(absl::Base64Unescape(text, &bytes));
  return bytes;
}

// `kind` is json or spm.
UnigramTokenizer LoadSetting(const Json& setting, const std::string& kind) {
  const auto file = setting["file"].get<std::string>();
  const auto tokenizer = kind == "json" ? UnigramTokenizer::FromJson(file, "file")
                                        : UnigramTokenizer::FromModelProto(Base64(file), "file");
  INFO(setting["name"] << " " << tokenizer.status().message());
  REQUIRE(tokenizer.ok());
  return *tokenizer;
}

Ids IdsOf(UnigramEncoder& encoder, const std::string& text) {
  Ids ids;
  encoder.Encode(text, ids);
  return ids;
}

Pieces PiecesOf(UnigramEncoder& encoder, const std::string& text) {
  Pieces pieces;
  encoder.EncodePieces(text, pieces);
  return pieces;
}

TEST_CASE("difficult texts get the ids that tokenizers and SentencePiece give them") {
  const Json& texts = Golden()["texts"];
  REQUIRE(texts.size() > 150);
  for (const std::string kind : {"json", "spm"}) {
    REQUIRE(Golden()[kind].size() == (kind == "json" ? 8 : 6));
    for (const Json& setting : Golden()[kind]) {
      const UnigramTokenizer tokenizer = LoadSetting(setting, kind);
      UnigramEncoder encoder(tokenizer);
      // Without room, too: then each word is cut anew.
      UnigramEncoder forgetful(tokenizer, 0);
      for (size_t i = 0; i < texts.size(); ++i) {
        const auto text = texts[i].get<std::string>();
        const auto expected = setting["ids"][i].get<Ids>();
        INFO(kind << " " << setting["name"] << " " << texts[i]);
        CHECK(IdsOf(encoder, text) == expected);
        CHECK(IdsOf(encoder, text) == expected);  // from the cache
        CHECK(IdsOf(forgetful, text) == expected);
      }
    }
  }
}

TEST_CASE("pieces are those of SentencePiece, and what is unknown is shown as its text") {
  int num_settings = 0;
  for (const Json& setting : Golden()["spm"]) {
    if (!setting.contains("pieces")) continue;
    ++num_settings;
    UnigramEncoder encoder(LoadSetting(setting, "spm"));
    for (size_t i = 0; i < Golden()["texts"].size(); ++i) {
      INFO(setting["name"] << " " << Golden()["texts"][i]);
      CHECK(PiecesOf(encoder, Golden()["texts"][i].get<std::string>()) ==
            setting["pieces"][i].get<Pieces>());
    }
  }
  CHECK(num_settings == 2);
}

TEST_CASE("ids become the texts that tokenizers and SentencePiece make of them") {
  for (const std::string kind : {"json", "spm"}) {
    for (const Json& setting : Golden()[kind]) {
      const UnigramTokenizer tokenizer = LoadSetting(setting, kind);
      REQUIRE(setting["decoded"].size() > 100);
      for (const Json& example : setting["decoded"]) {
        INFO(kind << " " << setting["name"] << " " << example);
        CHECK(tokenizer.Decode(example[0].get<Ids>()) == example[1].get<std::string>());
      }
    }
  }
}

TEST_CASE("rows have the special tokens, types and cuts of tokenizers") {
  for (const Json& setting : Golden()["json"]) {
    UnigramEncoder encoder(LoadSetting(setting, "json"));
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

UnigramTokenizer XlmRoberta() { return LoadSetting(Golden()["json"][0], "json"); }
UnigramTokenizer Marian() { return LoadSetting(Golden()["spm"][0], "spm"); }

TEST_CASE("words from the cache are cut as without it, also where rounding decides") {
  for (const std::string kind : {"json", "spm"}) {
    REQUIRE(Golden()[kind][5]["name"] == "ties");
    const UnigramTokenizer tokenizer = LoadSetting(Golden()[kind][5], kind);
    UnigramEncoder encoder(tokenizer);
    std::string line;
    for (int i = 0; i < 300; ++i) {
      line += std::string(static_cast<size_t>(3 + i % 9), static_cast<char>('a' + i % 6)) + " ";
      Pieces pieces;
      for (const int32_t id : IdsOf(encoder, line)) pieces.emplace_back(tokenizer.Piece(id));
      INFO(kind << " " << line);
      REQUIRE(pieces == PiecesOf(encoder, line));  // which does not use it
    }
  }
}

TEST_CASE("texts become ids and texts again") {
  const UnigramTokenizer xlm = XlmRoberta();
  UnigramEncoder encoder(xlm);
  CHECK(xlm.Decode(IdsOf(encoder, "The dialog  is<mask> here")) == "The dialog is<mask> here");
  UnigramEncoder marian(Marian());
  CHECK(Marian().DecodePieces(PiecesOf(marian, "The dialog \xE6\x9D\xB1 is")) ==
        "The dialog \xE6\x9D\xB1 is");
  CHECK(PiecesOf(marian, "a\xFF").back() == "\xEF\xBF\xBD");
}

TEST_CASE("pieces have names, and names ids") {
  const UnigramTokenizer xlm = XlmRoberta();
  CHECK(xlm.Piece(0) == "<s>");
  CHECK(xlm.unk_id() == 3);
  CHECK(xlm.IdOf("<mask>") == xlm.vocab_size() - 1);
  CHECK(xlm.IdOf("\xE2\x96\x81") > 3);  // U+2581
  CHECK(xlm.IdOf("nowhere") == -1);
  CHECK(Marian().unk_id() == 0);
}

TEST_CASE("a text of ten million bytes takes linear time, with and without spaces") {
  for (const std::string kind : {"json", "spm"}) {
    UnigramEncoder encoder(LoadSetting(Golden()[kind][0], kind));
    std::string letters;
    for (int i = 0; i < 2000000; ++i) letters += static_cast<char>('a' + i * i % 7);
    CHECK(IdsOf(encoder, letters).size() > 200000);
    std::string words;
    while (words.size() < 10000000) words += "The dialog is located on the computer. ";
    CHECK(IdsOf(encoder, words).size() > 1000000);
    CHECK(IdsOf(encoder, std::string(1000000, '\xCC')).size() >= 1);
  }
}

std::string ErrorOf(const StatusOr<UnigramTokenizer>& tokenizer) {
  REQUIRE(!tokenizer.ok());
  CHECK(tokenizer.status().code() == ExitCode::kData);
  return std::string(tokenizer.status().message());
}

TEST_CASE("a tokenizer.json that cannot give the model's ids is refused by the name of its field") {
  const auto refused = [](const std::function<void(Json&)>& change, const std::string& words) {
    Json file = Json::parse(Golden()["json"][0]["file"].get<std::string>());
    change(file);
    CHECK_THAT(ErrorOf(UnigramTokenizer::FromJson(file.dump(), "t.json")),
               Catch::StartsWith("t.json: ") && Catch::Contains(words));
  };
  CHECK_THAT(ErrorOf(UnigramTokenizer::FromJson("{", "t.json")),
             Catch::Contains("is no tokenizer.json"));
  refused([](Json& f) { f["model"]["type"] = "BPE"; }, "its model is no Unigram but BPE");
  refused([](Json& f) { f["model"]["alpha"] = 0.1; }, "model.alpha is set");
  refused([](Json& f) { f["normalizer"]["normalizers"][1]["type"] = "Lowercase"; },
          "normalizer Lowercase is not known");
  refused([](Json& f) { f["normalizer"]["normalizers"][1]["pattern"]["Regex"] = "\\d"; },
          "normalizer Replace has a pattern that dtrain does not know: \\d");
  refused([](Json& f) { f["normalizer"]["normalizers"][1]["content"] = 1; },
          "normalizer Replace: content is no text");
  refused([](Json& f) { f["pre_tokenizer"] = nullptr; }, "pre_tokenizer null is not known");
  refused([](Json& f) { f["pre_tokenizer"]["type"] = "ByteLevel"; },
          "pre_tokenizer ByteLevel is not known");
  refused([](Json& f) { f["pre_tokenizer"]["replacement"] = "_"; }, "replacement \"_\" is not");
  refused([](Json& f) { f["pre_tokenizer"]["prepend_scheme"] = "often"; },
          "prepend_scheme \"often\" is not known");
  refused(
      [](Json& f) {
        f["pre_tokenizer"]["prepend_scheme"] = "first";
        f["normalizer"]["normalizers"].push_back({{"type", "Nmt"}});
      },
      "prepend_scheme first is not known where");
  refused([](Json& f) { f["post_processor"]["type"] = "Odd"; }, "post_processor Odd is not known");
  refused([](Json& f) { f["post_processor"]["special_tokens"]["<s>"]["ids"] = {4000}; },
          "post_processor: id 4000 is beyond the");
  refused([](Json& f) { f["added_tokens"][0]["id"] = 2000000000; },
          "added_tokens: \"<s>\" has the id 2000000000");
  refused([](Json& f) { f["model"]["vocab"] = Json::array(); }, "model.vocab is no list");
  refused([](Json& f) { f["model"]["vocab"][9] = "x"; }, "model.vocab[9] is no [piece, score]");
  refused([](Json& f) { f["model"]["vocab"][9][1] = "x"; }, "model.vocab[9] is no [piece, score]");
  refused([](Json& f) { f["model"]["vocab"][9][0] = f["model"]["vocab"][7][0]; },
          "the pieces 7 and 9 are both");
  refused([](Json& f) { f["model"]["unk_id"] = nullptr; }, "model.unk_id is no id");
  refused([](Json& f) { f["model"]["unk_id"] = 5000; }, "model.unk_id 5000 is beyond the");
}

// The rules of the first setting, changed.
std::string RulesError(const std::function<void(std::string&)>& change) {
  Json file = Json::parse(Golden()["json"][0]["file"].get<std::string>());
  Json& field = file["normalizer"]["normalizers"][0]["precompiled_charsmap"];
  std::string rules = Base64(field.get<std::string>());
  change(rules);
  field = absl::Base64Escape(rules);
  return ErrorOf(UnigramTokenizer::FromJson(file.dump(), "t.json"));
}

TEST_CASE("rules of normalisation that are cut or damaged are refused") {
  for (const double part : {0.0005, 0.001, 0.002, 0.1, 0.5, 0.9}) {
    CHECK_THAT(RulesError([&](std::string& r) {
                 r.resize(1 + static_cast<size_t>(part * static_cast<double>(r.size())));
               }),
               Catch::StartsWith("t.json: normalizer: precompiled_charsmap is damaged: "));
  }
  CHECK_THAT(RulesError([](std::string& r) { r.pop_back(); }), Catch::Contains("are cut"));
  CHECK_THAT(RulesError([](std::string& r) { r.resize(r.rfind('\0', r.size() - 2) + 1); }),
             Catch::Contains("its replacements are cut"));
  CHECK_THAT(RulesError([](std::string& r) { r[r.size() - 2] = '\xFF'; }),
             Catch::Contains("are no UTF-8"));
  CHECK_THAT(RulesError([](std::string& r) { r[0] = static_cast<char>(r[0] + 1); }),
             Catch::Contains("no whole units"));
  Json file = Json::parse(Golden()["json"][0]["file"].get<std::string>());
  file["normalizer"]["normalizers"][0]["precompiled_charsmap"] = "%";
  CHECK_THAT(ErrorOf(UnigramTokenizer::FromJson(file.dump(), "t.json")),
             Catch::Contains("is not in base64"));
}

TEST_CASE("a file of SentencePiece that is cut, damaged or no Unigram model is refused") {
  const std::string bytes = Base64(Golden()["spm"][0]["file"].get<std::string>());
  CHECK_THAT(ErrorOf(UnigramTokenizer::FromModelProto("", "m.spm")),
             Catch::Contains("m.spm: is no whole SentencePiece model"));
  for (size_t size = 1; size < bytes.size(); size += 97) {
    INFO(size);
    CHECK_THAT(ErrorOf(UnigramTokenizer::FromModelProto(bytes.substr(0, size), "m.spm")),
               Catch::StartsWith("m.spm: "));
  }
  // Fields of a message may be given again behind it, and then count.
  const auto refused = [&](const std::string& more, const std::string& words) {
    CHECK_THAT(ErrorOf(UnigramTokenizer::FromModelProto(bytes + more, "m.spm")),
               Catch::StartsWith("m.spm: ") && Catch::Contains(words));
  };
  refused("\x12\x02\x18\x02", "is a BPE model of SentencePiece, not a Unigram model");
  refused(std::string("\x0A\x0A\x0A\x01q\x15\0\0\xC0\x7F\x18\x01", 12), "no number as its score");
  refused("\x0A\x05\x0A\x01q\x18\x09", "has the type 9");
  refused("\x0A\x07\x0A\x03<s>\x18\x03", "are both \"<s>\"");
  refused("\x0A\x05\x0A\x01q\x18\x02", "has 2 pieces of type 2");
  refused("\x0A\x05\x0A\x01q\x18\x06", "is no byte as <0x0A>");
  refused(std::string("\x0A\x08\x0A\x06<0x41>", 10) + "\x12\x03\x98\x02\x01", "there is no piece");
  refused(std::string("\x0A\x03\x0A\x01\0", 5), "is empty, has a NUL or is no UTF-8");
  refused(std::string("\x1A\x03\x12\x01x"), "precompiled_charsmap is damaged: it is too short");
}

TEST_CASE("a missing file is named") {
  const auto tokenizer = UnigramTokenizer::Load("/nowhere/source.spm");
  REQUIRE(!tokenizer.ok());
  CHECK_THAT(std::string(tokenizer.status().message()), Catch::Contains("/nowhere/source.spm"));
}

}  // namespace
}  // namespace dtrain
