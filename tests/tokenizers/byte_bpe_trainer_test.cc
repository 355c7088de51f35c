// byte_bpe_trainer_test.cc - learned byte-level BPE: by hand, against tokenizers, and in use.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/byte_bpe_trainer.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/tokenizers/byte_bpe.h"
#include "dtrain/tokenizers/text_tokenizer.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Json = nlohmann::json;
using Pieces = std::vector<std::string>;
using Merges = std::vector<std::pair<std::string, std::string>>;

// Batches of `batch` lines.
StatusOr<LearnedByteBpe> TryLearn(const Pieces& lines, const ByteBpeTrainerOptions& options,
                                  size_t batch = 1000) {
  size_t next = 0;
  const auto source = [&](Pieces& out) {
    while (out.size() < batch && next < lines.size()) out.push_back(lines[next++]);
    return OkStatus();
  };
  return LearnByteBpe(source, options);
}

const Json& Golden() {
  static const Json golden = [] {
    std::ifstream file(testing::GoldenPath("learned.json"));
    REQUIRE(file.good());
    return Json::parse(file);
  }();
  return golden;
}

TEST_CASE("a small text has the merges that pencil and paper give") {
  // Words: "hug" 5 times, " hug" 3, "aaa" 2. Pairs: h u 8, u g 8, of which h is older than u; then
  // hu g 8; aa counts twice in aaa: 4; then the space and hug 3; aa a 2.
  const LearnedByteBpe learned =
      TryLearn({"hug hug hug hug", "hug", "hug", "hug", "hug", "aaa", "aaa"}, {.vocab_size = 1000})
          .value();
  CHECK(learned.merges == Merges{{"h", "u"}, {"hu", "g"}, {"a", "a"}, {"Ġ", "hug"}, {"aa", "a"}});
  REQUIRE(learned.pieces.size() == 261);
  CHECK(learned.pieces.front() == "!");  // the first byte that shows itself
  CHECK(Pieces(learned.pieces.begin() + 256, learned.pieces.end()) ==
        Pieces{"hu", "hug", "aa", "Ġhug", "aaa"});
  CHECK(learned.words == 10);
  CHECK(learned.distinct_words == 3);
  CHECK(learned.vocab_size() == 266);
}

TEST_CASE("vocabularies and merges are those that tokenizers learns") {
  const auto lines = Golden()["lines"].get<Pieces>();
  REQUIRE(Golden()["settings"].size() == 3);
  for (const Json& setting : Golden()["settings"]) {
    INFO(setting["vocab_size"]);
    const LearnedByteBpe learned =
        TryLearn(lines, {.vocab_size = setting["vocab_size"].get<int32_t>(),
                         .min_frequency = setting["min_frequency"].get<int64_t>()})
            .value();
    Pieces all = learned.special.texts;
    all.insert(all.end(), learned.pieces.begin(), learned.pieces.end());
    CHECK(all == setting["pieces"].get<Pieces>());
    CHECK(learned.merges == setting["merges"].get<Merges>());
  }
}

TEST_CASE("the merges depend neither on threads nor on batches nor on the order of lines") {
  auto lines = Golden()["lines"].get<Pieces>();
  const LearnedByteBpe expected = TryLearn(lines, {.vocab_size = 700, .num_threads = 1}).value();
  std::reverse(lines.begin(), lines.end());
  for (const int num_threads : {1, 2, 3, 8}) {
    const LearnedByteBpe learned =
        TryLearn(lines, {.vocab_size = 700, .num_threads = num_threads}, 7).value();
    CHECK(learned.pieces == expected.pieces);
    CHECK(learned.merges == expected.merges);
  }
}

TEST_CASE("the file is one that our tokenizer reads, and texts survive it") {
  const auto lines = Golden()["lines"].get<Pieces>();
  const LearnedByteBpe learned = TryLearn(lines, {.vocab_size = 600}).value();
  const std::string json = ByteBpeJson(learned);
  CHECK(json == ByteBpeJson(learned));
  const ByteBpeTokenizer tokenizer = ByteBpeTokenizer::FromJson(json, "learned").value();
  REQUIRE(tokenizer.vocab_size() == 600);
  CHECK(tokenizer.Piece(0) == "<s>");
  CHECK(tokenizer.Piece(4) == "<mask>");
  CHECK(tokenizer.Piece(599) == learned.pieces.back());
  ByteBpeEncoder encoder(tokenizer);
  size_t tokens = 0;
  size_t bytes = 0;
  for (const std::string& line : lines) {
    if (line.find("<s>") != std::string::npos) continue;
    std::vector<int32_t> ids;
    encoder.Encode(line, ids);
    CHECK(tokenizer.Decode(ids) == line);
    tokens += ids.size();
    bytes += line.size();
  }
  // 339 merges make of the text a half of its bytes or less.
  CHECK(tokens * 2 < bytes);
  std::vector<int32_t> ids;
  std::vector<int32_t> types;
  encoder.EncodeRow("a <mask>", "b", 0, ids, types);
  const int32_t a = tokenizer.IdOf("a");
  const int32_t b = tokenizer.IdOf("b");
  CHECK(ids == std::vector<int32_t>{0, a, 4, 2, 2, b, 2});  // the mask takes its space along
}

TEST_CASE("rows of a folder with other special tokens begin and end with them") {
  const TemporaryFolder folder;
  const SpecialTokens special{{"[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "[X]"}};
  const LearnedByteBpe learned =
      TryLearn({"one two"}, {.vocab_size = 262, .special = special}).value();
  const std::string path = folder.Write("tokenizer.json", ByteBpeJson(learned));
  const TextTokenizer tokenizer = TextTokenizer::Load(path).value();
  CHECK(tokenizer.Piece(tokenizer.cls_id()) == "[CLS]");
  CHECK(tokenizer.Piece(tokenizer.sep_id()) == "[SEP]");
  CHECK(tokenizer.Piece(tokenizer.mask_id()) == "[MASK]");
  CHECK(tokenizer.Piece(tokenizer.pad_id()) == "[PAD]");
  CHECK(tokenizer.vocab_size() == 262);
  const Json config = Json::parse(TokenizerConfigJson(special));
  CHECK(config["mask_token"] == "[MASK]");
  CHECK(config["cls_token"] == "[CLS]");
  CHECK(config["eos_token"] == "[SEP]");
}

TEST_CASE("a word of more than 4096 bytes is counted and left out") {
  const LearnedByteBpe learned =
      TryLearn({std::string(4096, 'x') + " " + std::string(4096, 'y'), "zz zz"},
               {.vocab_size = 264})
          .value();
  CHECK(learned.long_words == 1);  // with its space
  CHECK(learned.merges == Merges{{"x", "x"}, {"xx", "xx"}, {"xxxx", "xxxx"}});
}

TEST_CASE("no text, a vocabulary too small and bad special tokens are errors") {
  const auto error = [](const Pieces& lines, const ByteBpeTrainerOptions& options, ExitCode code) {
    const Status status = TryLearn(lines, options).status();
    CHECK(status.code() == code);
    return std::string(status.message());
  };
  CHECK(error({}, {}, ExitCode::kData) == "no vocabulary can be learned: the text has no words");
  CHECK(error({"a"}, {.vocab_size = 260}, ExitCode::kUsage) ==
        "vocab_size 260 is too small: the special tokens and the 256 bytes need 261");
  CHECK(error({"a"}, {.min_frequency = 0}, ExitCode::kUsage) ==
        "min_frequency must be at least 1, not 0");
  CHECK(error({"a"}, {.special = {{"<s>"}}}, ExitCode::kUsage) ==
        "special tokens are 1; give at least 5: begin, padding, end, unknown, mask");
  CHECK(error({"a"}, {.special = {{"a>", "b>", "c>", "b>", "d>"}}}, ExitCode::kUsage) ==
        "special token \"b>\" is given twice");
  CHECK(error({"a"}, {.special = {{"a>", "b>", "c>", "", "d>"}}}, ExitCode::kUsage) ==
        "special token \"\" is empty, has a NUL or is no UTF-8");
  const std::string piece =
      error({"ab ab ab"}, {.special = {{"ab", "b>", "c>", "d>", "e>"}}}, ExitCode::kUsage);
  CHECK_THAT(piece, Catch::StartsWith("special token \"ab\" is also a piece that was learned"));
  const auto source = [](Pieces&) { return DataError("wiki.txt: gone"); };
  CHECK(LearnByteBpe(source, {}).status().message() == "wiki.txt: gone");
}

}  // namespace
}  // namespace dtrain
