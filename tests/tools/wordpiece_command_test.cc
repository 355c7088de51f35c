// wordpiece_command_test.cc - `dtrain wordpiece` as users run it: files, flags, exit codes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/wordpiece.h"
#include "integration/program.h"

namespace dtrain {
namespace {

Outcome Tool(const std::string& arguments) {
  return RunCommand(DTRAIN_TEST_PROGRAM " wordpiece " + arguments);
}

// The text of the hand-worked test of LearnWordPiece().
constexpr char kFirst[] = "hug hug hug hug hug pun pun\n";
constexpr char kSecond[] = "\nPug, pug; hugs.\n";
constexpr char kVocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n,\n.\n;\ng\nh\nn\np\ns\nu\n##g\n##n\n##s\n##u\n"
    "##ug\nhug\n##un\npug\npun\n";

TEST_CASE("a vocabulary of plain, compressed and piped text is one to load") {
  const TemporaryFolder folder;
  const std::string first = folder.Write("first.txt", kFirst);
  const std::string second = folder.Write("second.txt", kSecond);
  const Outcome learned = Tool(folder.File("new/vocab.txt") + " --input=" + first + "," + second);
  INFO(learned.output);
  REQUIRE(learned.exit_code == 0);
  CHECK(ReadTestFile(folder.File("new/vocab.txt")) == kVocabulary);
  CHECK_THAT(
      learned.output,
      Catch::StartsWith(folder.File("new/vocab.txt") +
                        ": 23 pieces of 13 words, 7 of them distinct, in ") &&
          Catch::EndsWith(" s; fewer than --size=30522, as no further pair occurs 2 times\n"));
  const auto tokenizer = WordPieceTokenizer::Load(folder.File("new/vocab.txt"));
  REQUIRE(tokenizer.ok());
  CHECK(tokenizer->EncodePieces("Hugs, pun") == std::vector<std::string>{"hug", "##s", ",", "pun"});

  REQUIRE(RunCommand("gzip " + first).exit_code == 0);
  const Outcome piped = Tool(folder.File("piped.txt") + " --threads=3 --input=" + first +
                             ".gz --input=- < " + second);
  INFO(piped.output);
  CHECK(piped.exit_code == 0);
  CHECK(ReadTestFile(folder.File("piped.txt")) == kVocabulary);
  // A named pipe can be opened once.
  REQUIRE(RunCommand("mkfifo " + folder.File("pipe")).exit_code == 0);
  const Outcome named =
      RunCommand("zcat " + first + ".gz > " + folder.File("pipe") +
                 " & timeout 20 " DTRAIN_TEST_PROGRAM " wordpiece " + folder.File("named.txt") +
                 " --input=" + folder.File("pipe") + "," + second + " 2>&1");
  INFO(named.output);
  CHECK(named.exit_code == 0);
  CHECK(ReadTestFile(folder.File("named.txt")) == kVocabulary);
}

TEST_CASE("size, case, accents and alphabet are as the flags say, and what is lost is told") {
  const TemporaryFolder folder;
  const std::string text = folder.Write("text", "Über über Uber Über über Uber zq\n");
  const Outcome cased =
      Tool(folder.File("cased") + " --nolower_case --limit_alphabet=6 --size=16 --input=" + text);
  INFO(cased.output);
  REQUIRE(cased.exit_code == 0);
  CHECK(ReadTestFile(folder.File("cased")) ==
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nU\nb\ne\nr\nÜ\nü\n##b\n##e\n##r\n##be\n##ber\n");
  CHECK_THAT(cased.output,
             Catch::EndsWith("; 1 words (14.3 %) are [UNK]: too long, or with one of the 2 "
                             "characters beyond --limit_alphabet=6\n"));
  REQUIRE(Tool(folder.File("kept") + " --accents=keep --size=20 --input=" + text).exit_code == 0);
  CHECK_THAT(ReadTestFile(folder.File("kept")),
             Catch::Contains("\nüber\n") && Catch::Contains("\nuber\n"));
  REQUIRE(Tool(folder.File("often") + " --min_frequency=7 --input=" + text).exit_code == 0);
  CHECK_THAT(ReadTestFile(folder.File("often")), Catch::EndsWith("##r\n"));
}

TEST_CASE("bad text and bad flags end with codes 3, 2 and 7, and leave no file behind") {
  const TemporaryFolder folder;
  const std::string good = folder.Write("good", kFirst);
  const std::string bad = folder.Write("bad", "red\ngr\xfcn\n");
  const std::string empty = folder.Write("empty", "\n \n");
  struct Case {
    std::string arguments;
    int exit_code;
    std::string message;
  };
  const std::string out = folder.File("out") + " --input=";
  const Case cases[] = {
      {out + good + "," + bad, 3, "bad:2: invalid UTF-8"},
      {out + good + "," + folder.File("absent"), 3, "absent: cannot be opened"},
      {out + empty, 3, "the text has no words"},
      {out + good + " --size=10", 2, "--size 10 is too small"},
      {out + good + " --size=5", 2, "--size is 5"},
      {out + good + " --min_frequency=0", 2, "--min_frequency is 0"},
      {out + good + " --accents=strp", 2, "--accents is strp; it is one of with_capitals, keep"},
      {out + good + " --tokenizer=bert", 2, "--tokenizer is bert; it is one of hf, google"},
      {out + good + " --vocab=7", 2, "unknown flag"},
      {folder.File("out"), 2, "give --input"},
      {"--input=" + good, 2, "give the file to write"},
      {folder.File("") + " --input=" + good, 2, "is a folder"},
      {good + " --input=" + good + " --overwrite", 2, "is also an input"},
      {good + " --input=- --overwrite < " + good, 2, "is also an input"},
      {good + "/vocab.txt --input=" + good, 7, "good"},
  };
  for (const Case& c : cases) {
    INFO(c.arguments);
    const Outcome outcome = Tool(c.arguments);
    INFO(outcome.output);
    CHECK(outcome.exit_code == c.exit_code);
    CHECK_THAT(outcome.output, Catch::StartsWith("dtrain: error[E") && Catch::Contains(c.message));
  }
  CHECK(ReadTestFile(folder.File("good")) == kFirst);
  CHECK_FALSE(std::filesystem::exists(folder.File("out")));
}

TEST_CASE("a vocabulary that is there is replaced with --overwrite only") {
  const TemporaryFolder folder;
  const std::string text = folder.Write("text", kFirst);
  folder.Write("vocab.txt", "kept\n");
  const Outcome refused = Tool(folder.File("vocab.txt") + " --input=" + text);
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, Catch::Contains("vocab.txt: is there already"));
  CHECK(ReadTestFile(folder.File("vocab.txt")) == "kept\n");
  CHECK(Tool(folder.File("vocab.txt") + " --overwrite --input=" + text).exit_code == 0);
  CHECK_THAT(ReadTestFile(folder.File("vocab.txt")), Catch::StartsWith("[PAD]\n[UNK]\n"));
}

}  // namespace
}  // namespace dtrain
