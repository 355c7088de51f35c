// nmt_train_input_test.cc - bad text and bad configuration: one message, one exit code, no harm.
// SPDX-License-Identifier: Apache-2.0
#include "integration/nmt_train_program.h"

namespace dtrain {
namespace {

// Lines [first, last) replaced by `line`.
std::string WithLines(const std::string& text, int first, int last, const std::string& line) {
  std::istringstream lines(text);
  std::string result;
  int i = 0;
  for (std::string current; std::getline(lines, current); ++i) {
    result += (i >= first && i < last ? line : current) + "\n";
  }
  return result;
}

class BadText {
 public:
  // Trains on two ranks from these two texts.
  Outcome Train(const std::string& source, const std::string& target) const {
    WriteTestFile(toy_.File("bad.src"), source);
    WriteTestFile(toy_.File("bad.tgt"), target);
    return toy_.Run(2, " data.train_source=" + toy_.File("bad.src") +
                           " data.train_target=" + toy_.File("bad.tgt"));
  }
  void CheckRefused(const std::string& source, const std::string& target,
                    const std::vector<std::string>& parts) const {
    toy_.RemoveRun();
    CheckFailed(Train(source, target), 3, parts);
    CHECK_FALSE(std::filesystem::exists(toy_.run_dir() + "/ckpt/last"));
    CHECK_THAT(ReadTestFile(toy_.run_dir() + "/STATUS"),
               Catch::Contains("state failed\nexit_code 3\n"));
    // The texts are as they were.
    CHECK(ReadTestFile(toy_.File("bad.src")) == source);
    CHECK(ReadTestFile(toy_.File("bad.tgt")) == target);
  }
  const ToyProgram& toy() const { return toy_; }

 private:
  ToyProgram toy_;
};

TEST_CASE("files that are missing, not aligned or empty end with exit code 3") {
  const BadText bad;
  const ToyProgram& toy = bad.toy();
  CheckFailed(toy.Run(2, " data.train_source=" + toy.File("absent") +
                             " data.train_target=" + toy.File("train.tgt")),
              3, {toy.File("absent") + ": cannot be opened: No such file or directory"});
  CheckFailed(toy.Run(2, " data.prepared=" + toy.File("absent") + " data.dev_tsv="), 3,
              {toy.File("absent") + ": cannot open", "No such file or directory"});
  const std::string short_text =
      toy.source().substr(0, toy.source().rfind('\n', toy.source().size() - 2) + 1);
  bad.CheckRefused(
      short_text, toy.target(),
      {toy.File("bad.src") + " has 299 lines but " + toy.File("bad.tgt") + " has 300"});
  bad.CheckRefused("", "", {toy.File("bad.src") + ": the training text is empty"});
  bad.CheckRefused("abc\n", "cba\n", {"1 sentence pairs for 2 ranks; start fewer ranks"});
}

TEST_CASE("text that is broken in many lines ends with exit code 3 and the first line's number") {
  const BadText bad;
  const ToyProgram& toy = bad.toy();
  bad.CheckRefused(WithLines(toy.source(), 6, 26, "ab\xff"), toy.target(),
                   {toy.File("bad.src") + ":7: invalid UTF-8", "20 of 300 lines are broken"});
  bad.CheckRefused(toy.source(), WithLines(toy.target(), 2, 22, std::string("a\0b", 3)),
                   {toy.File("bad.tgt") + ":3: a NUL byte", "20 of 300 lines are broken"});
  bad.CheckRefused(WithLines(toy.source(), 3, 8, std::string((1 << 20) + 1, 'a')), toy.target(),
                   {toy.File("bad.src") + ":4: the line is too long", "limit 1048576 bytes"});
}

TEST_CASE("a few broken lines are dropped and counted") {
  const BadText bad;
  const ToyProgram& toy = bad.toy();
  std::string source = WithLines(toy.source(), 3, 4, "ab\xff");
  source = WithLines(source, 7, 8, std::string((1 << 20) + 1, 'a'));
  const Outcome outcome = bad.Train(source, toy.target());
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(toy.Log(),
             Catch::Contains("2 invalid_text") && Catch::Contains(toy.File("bad.src") + ":4"));
}

TEST_CASE("line ends of Windows, a byte order mark and empty lines change nothing") {
  const ToyProgram plain;
  REQUIRE(plain.Run(2, plain.Corpus()).exit_code == 0);
  const std::string weights = ReadTestFile(plain.CheckpointFile(20));
  std::string windows = "\xEF\xBB\xBF";
  for (const char c : plain.source()) windows += c == '\n' ? "\r\n" : std::string(1, c);
  const BadText crlf;
  REQUIRE(crlf.Train(windows, plain.target()).exit_code == 0);
  CHECK(ReadTestFile(crlf.toy().CheckpointFile(20)) == weights);
  const BadText empty;
  REQUIRE(empty.Train(plain.source() + "\n\n", plain.target() + "\n\n").exit_code == 0);
  CHECK(ReadTestFile(empty.toy().CheckpointFile(20)) == weights);
  CHECK_THAT(empty.toy().Log(), Catch::Contains("2 empty_side"));
}

TEST_CASE("a configuration that cannot be ends with exit code 2 before anything is made") {
  const ToyProgram toy;
  struct Case {
    const char* arguments;
    const char* message;
  };
  const Case cases[] = {
      {"model.hiden_size=32", "unknown key \"model.hiden_size\"; did you mean model.hidden_size?"},
      {"model.hidden_size=wide", "model.hidden_size is a whole number (int32), not \"wide\""},
      {"trainer.eval_every=500", "trainer.eval_every"},
      {"model.num_heads=5", "model.hidden_size (32) must be a multiple of model.num_heads (5)"},
      {"model.dropout=1.5", "model.dropout"},
      {"model.max_positions=4",
       "data.max_length (60) and an end mark exceed model.max_positions (4)"},
  };
  for (const Case& c : cases) {
    INFO(c.arguments);
    CheckFailed(toy.Run(2, toy.Corpus() + " " + c.arguments), 2, {c.message});
  }
  CHECK_FALSE(std::filesystem::exists(toy.run_dir() + "/ckpt/last"));
  WriteTestFile(toy.File("bad.textproto"), "model {\n  hidden_size: 32\n  hiden_size: 3\n}\n");
  CheckFailed(toy.Run(2, toy.Corpus() + " --config=" + toy.File("bad.textproto")), 2,
              {toy.File("bad.textproto") + ":3"});
}

TEST_CASE("a run that only a dev set can end needs one, and evaluations without one are told") {
  const ToyProgram toy;
  const std::string without = toy.Corpus() + " data.dev_tsv= data.hold_out_dev=0 ";
  CheckFailed(toy.Run(2, without + "trainer.max_steps=0 trainer.early_stop.patience=1 "
                                   "trainer.eval_every=5u"),
              2, {"trainer.early_stop.patience needs a dev set", "data.hold_out_dev"});
  toy.RemoveRun();
  const Outcome told = toy.Run(2, without + "trainer.max_steps=2 trainer.eval_every=1u");
  INFO(told.output);
  CHECK(told.exit_code == 0);
  CHECK(CountOf(told.output, "trainer.eval_every=1u, but there is no dev set") == 1);
  toy.RemoveRun();
  const Outcome quiet = toy.Run(1, without + "trainer.max_steps=2");
  CHECK(quiet.exit_code == 0);
  CHECK_THAT(quiet.output, !Catch::Contains("no dev set"));
}

TEST_CASE("dev text that is broken ends with exit code 3 and its line") {
  const ToyProgram toy;
  WriteTestFile(toy.File("dev.tsv"), "abc\tcba\nab\xff\tb\n");
  CheckFailed(toy.Run(2, toy.Corpus()), 3, {toy.File("dev.tsv") + ":2: invalid UTF-8"});
  WriteTestFile(toy.File("dev.tsv"), "abc\tcba\nno tab here\n");
  CheckFailed(toy.Run(2, toy.Corpus()), 3, {toy.File("dev.tsv") + ":2"});
}

}  // namespace
}  // namespace dtrain
