// tokenizer_command_test.cc - `dtrain tokenizer learn` as users run it: files, flags, exit codes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/bpe.h"
#include "dtrain/tokenizers/text_tokenizer.h"
#include "dtrain/tokenizers/unigram.h"
#include "dtrain/tokenizers/wordpiece.h"
#include "integration/program.h"

namespace dtrain {
namespace {

constexpr char kLearn[] = DTRAIN_TEST_PROGRAM " tokenizer learn ";

Outcome Learn(const std::string& type, const std::string& arguments) {
  return RunCommand(kLearn + ("--type=" + type) + " " + arguments);
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
  const Outcome learned =
      Learn("wordpiece", "--output=" + folder.File("new/vocabulary") + " " + first + " " + second);
  INFO(learned.output);
  REQUIRE(learned.exit_code == 0);
  const std::string path = folder.File("new/vocabulary/vocab.txt");
  CHECK(ReadTestFile(path) == kVocabulary);
  CHECK_THAT(learned.output,
             Catch::StartsWith(path + ": 23 pieces of 13 words, 7 of them distinct, in ") &&
                 Catch::EndsWith(
                     " s; fewer than --vocab_size=32000, as no further pair occurs 2 times\n"));
  const auto tokenizer = WordPieceTokenizer::Load(path);
  REQUIRE(tokenizer.ok());
  CHECK(tokenizer->EncodePieces("Hugs, pun") == std::vector<std::string>{"hug", "##s", ",", "pun"});

  REQUIRE(RunCommand("gzip " + first).exit_code == 0);
  const Outcome piped = Learn("wordpiece", "--threads=3 --output=" + folder.File("piped") + " " +
                                               first + ".gz - < " + second);
  INFO(piped.output);
  CHECK(piped.exit_code == 0);
  CHECK(ReadTestFile(folder.File("piped/vocab.txt")) == kVocabulary);
  // A named pipe can be opened once.
  REQUIRE(RunCommand("mkfifo " + folder.File("pipe")).exit_code == 0);
  const Outcome named =
      RunCommand("zcat " + first + ".gz > " + folder.File("pipe") + " & timeout 20 " + kLearn +
                 "--type=wordpiece --output=" + folder.File("named") + " " + folder.File("pipe") +
                 " " + second + " 2>&1");
  INFO(named.output);
  CHECK(named.exit_code == 0);
  CHECK(ReadTestFile(folder.File("named/vocab.txt")) == kVocabulary);
}

TEST_CASE("size, case, accents and alphabet are as the flags say, and what is lost is told") {
  const TemporaryFolder folder;
  const std::string text = folder.Write("text", "Über über Uber Über über Uber zq\n");
  const auto learn = [&](const std::string& output, const std::string& flags) {
    return Learn("wordpiece", "--output=" + folder.File(output) + " " + flags + " " + text);
  };
  const Outcome cased = learn("cased", "--nolower_case --limit_alphabet=6 --vocab_size=16");
  INFO(cased.output);
  REQUIRE(cased.exit_code == 0);
  CHECK(ReadTestFile(folder.File("cased/vocab.txt")) ==
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nU\nb\ne\nr\nÜ\nü\n##b\n##e\n##r\n##be\n##ber\n");
  CHECK_THAT(cased.output,
             Catch::Contains("; 1 words (14.3 %) are [UNK]: too long, or with one of the 2 "
                             "characters beyond --limit_alphabet=6, in "));
  REQUIRE(learn("kept", "--accents=keep --vocab_size=20").exit_code == 0);
  CHECK_THAT(ReadTestFile(folder.File("kept/vocab.txt")),
             Catch::Contains("\nüber\n") && Catch::Contains("\nuber\n"));
  REQUIRE(learn("often", "--min_frequency=7").exit_code == 0);
  CHECK_THAT(ReadTestFile(folder.File("often/vocab.txt")), Catch::EndsWith("##r\n"));
}

TEST_CASE("byte-level BPE is a tokenizer.json with the special tokens that are asked for") {
  const TemporaryFolder folder;
  const std::string text = folder.Write("text", "hug hug hug hüg hüg\n");
  const Outcome learned = Learn("byte_bpe",
                                "--vocab_size=266 --special='[CLS],[PAD],[SEP]' "
                                "--special='[UNK],[MASK],[X]' --output=" +
                                    folder.File("out") + " " + text);
  INFO(learned.output);
  REQUIRE(learned.exit_code == 0);
  CHECK_THAT(learned.output, Catch::StartsWith(folder.File("out/tokenizer.json") + ", " +
                                               folder.File("out/tokenizer_config.json") +
                                               ": 266 pieces of 5 words, 3 of them distinct, in "));
  const TextTokenizer tokenizer = TextTokenizer::Load(folder.File("out/tokenizer.json")).value();
  CHECK(tokenizer.kind() == "byte-level BPE");
  CHECK(tokenizer.vocab_size() == 266);
  CHECK(tokenizer.Piece(5) == "[X]");
  CHECK(tokenizer.Piece(tokenizer.mask_id()) == "[MASK]");
  CHECK_THAT(ReadTestFile(folder.File("out/tokenizer_config.json")),
             Catch::Contains("\"pad_token\": \"[PAD]\""));
}

TEST_CASE("Unigram is a tokenizer.json and a SentencePiece model with the same ids") {
  const TemporaryFolder folder;
  const std::string text = folder.Write("text", "hug hug hug hugs hugging 12 12 hugs\n");
  const Outcome learned = Learn("unigram",
                                "--split_digits --character_coverage=1 --threads=2 "
                                "--output=" +
                                    folder.File("out") + " " + text);
  INFO(learned.output);
  REQUIRE(learned.exit_code == 0);
  CHECK_THAT(learned.output,
             Catch::StartsWith(folder.File("out/tokenizer.json") + ", " +
                               folder.File("out/tokenizer_config.json") + ", " +
                               folder.File("out/tokenizer.spm") + ": ") &&
                 Catch::Contains(" of 8 words, 4 of them distinct, in ") &&
                 Catch::EndsWith("; fewer than --vocab_size=32000, as the text has no further part "
                                 "that is worth a piece\n"));
  const auto json = UnigramTokenizer::Load(folder.File("out/tokenizer.json")).value();
  const auto proto = UnigramTokenizer::Load(folder.File("out/tokenizer.spm")).value();
  for (const auto& tokenizer : {json, proto}) {
    std::vector<std::string> pieces;
    UnigramEncoder(tokenizer).EncodePieces("hug hugs 12", pieces);
    CHECK(pieces == std::vector<std::string>{"▁hug", "▁hugs", "▁", "1", "2"});
  }
  CHECK(TextTokenizer::Load(folder.File("out/tokenizer.json"))->kind() == "Unigram");
}

TEST_CASE("BPE for translation is a SentencePiece model") {
  const TemporaryFolder folder;
  const std::string text = folder.Write("text", "hug hug hug 12 12 hugs\n");
  const Outcome learned = Learn("bpe", "--split_digits --byte_fallback --vocab_size=280 --output=" +
                                           folder.File("out") + " " + text);
  INFO(learned.output);
  REQUIRE(learned.exit_code == 0);
  CHECK_THAT(learned.output, Catch::StartsWith(folder.File("out/tokenizer.spm") + ": 27"));
  const BpeModel model = BpeModel::Load(folder.File("out/tokenizer.spm")).value();
  CHECK(model.EncodePieces("hug 12") == std::vector<std::string>{"▁hug", "▁", "1", "2"});
}

TEST_CASE("a draw of lines is the same for the same seed, and another one for another") {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    lines += std::string(3, static_cast<char>('a' + i % 26)) + std::to_string(i * 7919) + "\n";
  }
  const std::string text = folder.Write("text", lines);
  const auto learn = [&](const std::string& output, const std::string& flags) {
    const Outcome outcome =
        Learn("byte_bpe", "--min_frequency=1 --vocab_size=300 --sentences=20 " + flags +
                              " --output=" + folder.File(output) + " " + text);
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    return ReadTestFile(folder.File(output + "/tokenizer.json"));
  };
  const std::string first = learn("1", "--threads=1");
  CHECK(learn("2", "--threads=3") == first);
  CHECK(learn("3", "--seed=2") != first);
}

TEST_CASE("lines that are not UTF-8 fail by name, or are counted and mended") {
  const TemporaryFolder folder;
  const std::string bad = folder.Write("bad", "red\ngr\xfcn\nblue\n");
  const auto learn = [&](const std::string& invalid) {
    return Learn("wordpiece", "--overwrite --min_frequency=1 --invalid=" + invalid +
                                  " --output=" + folder.File("out") + " " + bad);
  };
  CHECK_THAT(learn("fail").output, Catch::Contains("bad:2: invalid UTF-8"));
  const Outcome replaced = learn("replace");
  INFO(replaced.output);
  CHECK(replaced.exit_code == 0);
  CHECK_THAT(replaced.output, Catch::Contains("bad: 1 line is not UTF-8"));
  CHECK_THAT(ReadTestFile(folder.File("out/vocab.txt")), Catch::Contains("\n##n\n"));
  CHECK(learn("skip").exit_code == 0);
  CHECK_THAT(ReadTestFile(folder.File("out/vocab.txt")), !Catch::Contains("\n##n\n"));
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
  const std::string out = "--output=" + folder.File("out") + " ";
  const std::string wordpiece = "learn --type=wordpiece " + out;
  const Case cases[] = {
      {wordpiece + good + " " + bad, 3, "bad:2: invalid UTF-8"},
      {wordpiece + good + " " + folder.File("absent"), 3, "absent: cannot be opened"},
      {wordpiece + empty, 3, "the text has no words"},
      {wordpiece + good + " --vocab_size=10", 2, "--vocab_size 10 is too small"},
      {wordpiece + good + " --vocab_size=5", 2, "--vocab_size is 5"},
      {wordpiece + good + " --min_frequency=0", 2, "--min_frequency is 0"},
      {wordpiece + good + " --accents=strp", 2,
       "--accents is strp; it is one of with_capitals, keep"},
      {wordpiece + good + " --tokenizer=bert", 2, "--tokenizer is bert; it is one of hf, google"},
      {wordpiece + good + " --vocab=7", 2, "unknown flag"},
      {wordpiece + good + " --invalid=x", 2, "--invalid"},
      {wordpiece + good + " --sentences=-1", 2, "--sentences is -1"},
      {wordpiece + good + " --special=a,b", 2,
       "--special is not for --type=wordpiece; it is for byte_bpe, unigram"},
      {"learn --type=byte_bpe --lower_case " + out + good, 2,
       "--lower_case is not for --type=byte_bpe; it is for wordpiece"},
      {"learn --type=byte_bpe --vocab_size=260 " + out + good, 2, "--vocab_size 260 is too small"},
      {"learn --type=byte_bpe --special=a,b " + out + good, 2, "special tokens are 2"},
      {"learn --type=bpe --character_coverage=2 " + out + good, 2,
       "--character_coverage must be above 0"},
      {"learn --type=word " + out + good, 2, "--type is word; it is one of byte_bpe"},
      {"learn " + out + good, 2, "give --type"},
      {wordpiece, 2, "no text"},
      {"learn --type=wordpiece " + good, 2, "give the folder to write"},
      {"", 2, "say what to do: dtrain tokenizer learn"},
      {"teach " + good, 2, "dtrain tokenizer teach is not known"},
      {"learn --type=wordpiece --output=" + good + " " + good, 2, "is a file"},
      {"learn --type=wordpiece --output=" + good + "/new " + good, 7, "good"},
  };
  for (const Case& c : cases) {
    INFO(c.arguments);
    const Outcome outcome = RunCommand(DTRAIN_TEST_PROGRAM " tokenizer " + c.arguments);
    INFO(outcome.output);
    CHECK(outcome.exit_code == c.exit_code);
    CHECK_THAT(outcome.output, Catch::StartsWith("dtrain: error[E") && Catch::Contains(c.message));
  }
  CHECK(ReadTestFile(folder.File("good")) == kFirst);
  CHECK_FALSE(std::filesystem::exists(folder.File("out/vocab.txt")));
  CHECK_FALSE(std::filesystem::exists(folder.File("out/tokenizer.json")));
  CHECK_THAT(RunCommand(DTRAIN_TEST_PROGRAM " wordpiece x").output,
             Catch::Contains("it is now dtrain tokenizer learn --type=wordpiece"));
}

TEST_CASE("a vocabulary that is there is replaced with --overwrite only, and never read") {
  const TemporaryFolder folder;
  const std::string text = folder.Write("text", kFirst);
  const std::string vocabulary = folder.Write("vocab.txt", "kept\n");
  const std::string out = "--output=" + folder.File("") + " ";
  const Outcome refused = Learn("wordpiece", out + text);
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, Catch::Contains("vocab.txt: is there already"));
  for (const std::string& input : {vocabulary, "- < " + vocabulary}) {
    const Outcome read = Learn("wordpiece", out + "--overwrite " + input);
    CHECK(read.exit_code == 2);
    CHECK_THAT(read.output, Catch::Contains("is also an input"));
  }
  CHECK(ReadTestFile(vocabulary) == "kept\n");
  CHECK(Learn("wordpiece", out + "--overwrite " + text).exit_code == 0);
  CHECK_THAT(ReadTestFile(vocabulary), Catch::StartsWith("[PAD]\n[UNK]\n"));
}

}  // namespace
}  // namespace dtrain
