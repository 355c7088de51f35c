// wordpiece_vocabulary_test.cc - vocabularies that are not, and what is said about them.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/wordpiece.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

using namespace std::string_literals;

// The message about a file of this content, without its path.
std::string MessageAbout(const std::string& content) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("vocab.txt", content);
  const Status status = WordPieceTokenizer::Load(path).status();
  CHECK(status.code() == ExitCode::kData);
  const std::string message(status.message());
  REQUIRE(message.starts_with(path + ": "));
  return message.substr(path.size() + 2);
}

TEST_CASE("a vocabulary is read with or without a newline at its end") {
  const TemporaryFolder folder;
  const std::string pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n\u00e9\n##\u00e9";
  for (const std::string& content : {pieces, pieces + "\n"}) {
    const StatusOr<WordPieceTokenizer> tokenizer =
        WordPieceTokenizer::Load(folder.Write("vocab.txt", content));
    REQUIRE(tokenizer.ok());
    CHECK(tokenizer->vocab_size() == 6);
    CHECK(tokenizer->Piece(4) == "\u00e9");
    CHECK(tokenizer->IdOf("##\u00e9") == 5);
  }
}

TEST_CASE("the vocabulary of a tokenizer.json is that of the vocab.txt it was made of") {
  const TemporaryFolder folder;
  const auto json = [&](const std::string& vocab, const std::string& type = "WordPiece") {
    return ReadVocabularyText(folder.Write(
        "tokenizer.json",
        R"({"version": "1.0", "model": {"type": ")" + type + R"(", "vocab": )" + vocab + "}}"));
  };
  CHECK(*json(R"({"[CLS]": 2, "[PAD]": 0, "[UNK]": 1, "[SEP]": 3, "\u00e9": 4})") ==
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n\u00e9\n");
  CHECK(WordPieceTokenizer::Load(folder.File("tokenizer.json"))->IdOf("\u00e9") == 4);
  for (const char* const broken : {R"({"a": 0, "b": 2})", R"({"a": 0, "b": 0})", R"({"a": "x"})"}) {
    CHECK_THAT(std::string(json(broken).status().message()), Catch::Contains("each once"));
  }
  CHECK_THAT(std::string(json("[]", "BPE").status().message()), Catch::Contains("no WordPiece"));
  CHECK_FALSE(ReadVocabularyText(folder.Write("a.json", "not json")).ok());
}

TEST_CASE("a vocabulary that is not there or is a folder is named") {
  const TemporaryFolder folder;
  Status status = WordPieceTokenizer::Load(folder.File("vocab.txt")).status();
  CHECK(status.code() == ExitCode::kData);
  CHECK(status.message() ==
        folder.File("vocab.txt") + ": cannot open: No such file or directory; check the path");
  status = WordPieceTokenizer::Load(folder.path()).status();
  CHECK(status.code() == ExitCode::kData);
  CHECK(status.message() ==
        folder.path() + ": is a folder, not a vocabulary; give the vocab.txt in it");
}

TEST_CASE("lines that cannot be pieces are named by number") {
  const std::string good = "[UNK]\n[CLS]\n[SEP]\n";
  CHECK(MessageAbout("[UNK]\r\n[CLS]\r\n[SEP]\r\n") ==
        "line 1 ends with CR LF; convert the file to Unix lines, for example with dos2unix");
  CHECK(MessageAbout(good + "a\r\n").starts_with("line 4 ends with CR LF"));
  CHECK(MessageAbout(good + "\na\n") == "line 4 is empty; a vocabulary has one piece per line");
  CHECK(MessageAbout(good + "a\n\xC3\n") ==
        "line 5 is not UTF-8; re-encode the file, for example with iconv");
  CHECK(MessageAbout("\xEF\xBB\xBF" + good).starts_with("line 1 begins with a byte order mark"));
  CHECK(MessageAbout(good + "a\0\n"s) == "line 4 has a NUL byte; this is not a text file");
  CHECK(MessageAbout(good + "a 5\n") ==
        "line 4 has a space or a tab; a vocabulary has one piece per line and nothing else");
  CHECK(MessageAbout(good + "a\t5\n").starts_with("line 4 has a space or a tab"));
}

TEST_CASE("a piece that comes twice is named with both lines") {
  CHECK(MessageAbout("[UNK]\n[CLS]\n[SEP]\nthe\na\nthe\n") ==
        "line 6 repeats the piece 'the' of line 4; each piece must have only one id");
}

TEST_CASE("a vocabulary without a special token is named with it") {
  CHECK(MessageAbout("[CLS]\n[SEP]\na\n") ==
        "none of its 3 lines is [UNK]; BERT's vocabularies have [UNK], [CLS] and [SEP]");
  CHECK(MessageAbout("[UNK]\n[SEP]\n").starts_with("none of its 2 lines is [CLS]"));
  CHECK(MessageAbout("[UNK]\n[CLS]\n").starts_with("none of its 2 lines is [SEP]"));
  CHECK(MessageAbout("") == "the vocabulary is empty");
}

TEST_CASE("a vocabulary in memory is checked like a file") {
  const Status status = WordPieceTokenizer::FromVocabulary({"[UNK]", "a", "a"}).status();
  CHECK(status.code() == ExitCode::kData);
  CHECK(status.message() ==
        "line 3 repeats the piece 'a' of line 2; each piece must have only one id");
}

TEST_CASE("a limit of characters out of range is an error of usage") {
  for (const int limit : {-1, 1001}) {
    const Status status =
        WordPieceTokenizer::FromVocabulary({"[UNK]", "[CLS]", "[SEP]"}, {.max_word_chars = limit})
            .status();
    CHECK(status.code() == ExitCode::kUsage);
    CHECK(status.message() == "max_word_chars is " + std::to_string(limit) +
                                  "; it must be from 1 to 1000, or 0 for the default");
  }
}

TEST_CASE("a tokenizer.json that would give other ids is refused by the part that does") {
  const TemporaryFolder folder;
  const std::string path = folder.File("tokenizer.json");
  const auto message = [&](const std::string& parts, const std::string& model = "") {
    WriteTestFile(path, "{" + parts + R"("model": {"type": "WordPiece", )" + model +
                            R"("vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3}}})");
    return std::string(WordPieceTokenizer::Load(path).status().message());
  };
  const std::string unknown = ", which WordPiece here does not know";
  CHECK(message("").empty());
  CHECK(message(R"("normalizer": {"type": "BertNormalizer", "clean_text": true,
                   "handle_chinese_chars": true, "lowercase": true},
                   "pre_tokenizer": {"type": "BertPreTokenizer"},
                   "added_tokens": [{"id": 1, "content": "[CLS]", "special": true}],)")
            .empty());
  CHECK(message(R"("normalizer": {"type": "NFKC"},)") ==
        path + ": its normalizer is NFKC" + unknown);
  CHECK(message(R"("normalizer": {"type": "BertNormalizer", "handle_chinese_chars": false},)") ==
        path + ": normalizer.handle_chinese_chars is not true" + unknown);
  CHECK(message(R"("pre_tokenizer": {"type": "Whitespace"},)") ==
        path + ": its pre_tokenizer is Whitespace" + unknown);
  CHECK(message(R"("added_tokens": [{"id": 4, "content": "[E1]"}],)") ==
        path + ": added_tokens has \"[E1]\" with the id 4" + unknown);
  CHECK(message("", R"("max_input_chars_per_word": 50, )") ==
        path + ": model.max_input_chars_per_word is not 100" + unknown);
}

}  // namespace
}  // namespace dtrain
