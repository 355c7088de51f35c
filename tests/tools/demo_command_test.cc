// demo_command_test.cc - `dtrain demo` trains, scores and translates, and says how it ended.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include "testing/catch.h"
#include "tools/tiny_run.h"

namespace dtrain {
namespace {

// The demo of a tiny model on tiny texts.
std::string Demo(const std::string& run, const std::string& more) {
  const TinyRun& tiny = TinyRun::Get();
  const auto file = [&](const std::string& name, int lines) {
    const std::string path = tiny.Path(name + ".tsv");
    std::string text;
    for (const std::string& line : Lines(Corpus(lines, {"red", "green", "house", "tree"}))) {
      text += line + "\t" + line + "\n";
    }
    WriteTestFile(path, text);
    return " data." + name + "_tsv=" + path;
  };
  return DTRAIN_TEST_TOOL " demo --run=" + run + file("train", 200) + file("dev", 10) +
         file("test", 20) +
         " data.vocab_size=60 data.max_length=32 model.hidden_size=32 model.ffn_size=32"
         " model.num_heads=2 model.encoder_layers=1 model.decoder_layers=1 optimizer.warmup_steps=1"
         " trainer.precision=fp32 trainer.eval_every= run.progress=none " +
         more;
}

TEST_CASE("the demo trains for its time, scores its test set and shows five translations") {
  const std::string run = TinyRun::Get().Path("demo");
  const Outcome outcome = Shell(Demo(run, "--minutes=0.05"));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.output,
             Catch::Contains("done (max_time): ") && Catch::Contains("\nBLEU|nrefs"));
  const std::vector<std::string> lines = Lines(
      outcome.output.substr(outcome.output.find("Some sentences of it, and their translations:")));
  REQUIRE(lines.size() > 12);
  CHECK_THAT(lines[1], Catch::StartsWith("  red "));
  CHECK(lines[10].substr(0, 2) == "  ");
  CHECK(lines[11] == "");
  CHECK_THAT(outcome.output, Catch::Contains("dtrain translate " + run));
  CHECK_THAT(ReadTestFile(run + "/STATUS"), Catch::Contains("state done"));

  SECTION("the same command goes on where it stopped") {
    const Outcome again = Shell(Demo(run, "--minutes=0.05"));
    CHECK(again.exit_code == 0);
    CHECK_THAT(again.output, Catch::StartsWith(run + " holds a run: it goes on there"));
  }
}

TEST_CASE("the demo trains on several ranks") {
  const std::string run = TinyRun::Get().Path("demo2");
  const Outcome outcome = Shell(Demo(run, "--ranks=2 --minutes=0.05"));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(ReadTestFile(run + "/env.json"), Catch::Contains("\"ranks\":2,"));
}

TEST_CASE("a demo whose training is stopped ends with the exit code of a stopped run") {
  const std::string run = TinyRun::Get().Path("stopped");
  Job job("exec " + Demo(run, "--minutes=10"));
  REQUIRE(WaitUntil(
      [&] { return ReadTestFile(run + "/STATUS").find("state running") != std::string::npos; },
      60));
  const Outcome stopped = Tool("stop " + run);
  CHECK(stopped.exit_code == 0);
  CHECK(job.Wait(20).exit_code == 75);
  CHECK(std::filesystem::exists(run + "/ckpt/last/COMPLETE"));
}

TEST_CASE("the demo says which of its own flags or of nmt_train's settings is wrong") {
  const Outcome minutes = Tool("demo --minutes=0");
  CHECK(minutes.exit_code == 2);
  CHECK_THAT(minutes.output, Catch::Contains("--minutes must be more than 0"));
  const Outcome setting = Tool("demo --run=" + TinyRun::Get().Path("none") + " trainer.max_tim=1");
  CHECK(setting.exit_code == 2);
  CHECK_THAT(setting.output, Catch::Contains("trainer.max_time"));
  CHECK(!std::filesystem::exists(TinyRun::Get().Path("none") + "/ckpt"));
}

}  // namespace
}  // namespace dtrain
