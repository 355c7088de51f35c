// program_test.cc - lm_train as users start it, on the example's text.
// SPDX-License-Identifier: Apache-2.0
#include "integration/program.h"

#include <filesystem>
#include <string>

#include "dtrain/language_model.pb.h"
#include "integration/planned_memory.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

Outcome Lm(const std::string& arguments, int ranks = 1) {
  return RunCommand(CommandOn(ranks, DTRAIN_TEST_PROGRAM " " + arguments));
}

const std::string kPresets = testing::PresetsDirectory("lm_train");
// Less than the preset's, to be quick. Updates of so many tokens are alike, as a plan of memory
// takes them.
const std::string kSmall =
    " model.num_layers=2 model.hidden_size=64 model.ffn_size=128 trainer.tokens_per_batch=3000 ";

TEST_CASE("lm_train trains, goes on, evaluates and writes") {
  const TemporaryFolder folder;
  const std::string run = " --run_dir=" + folder.File("run");
  const std::string train =
      "train --config=" + kPresets + "/demo.textproto run.progress=plain" + kSmall + run;
  const Outcome begun = Lm(train + " trainer.max_epochs=1", 2);
  INFO(begun.output);
  REQUIRE(begun.exit_code == 0);
  CHECK_THAT(begun.output, Catch::Contains("train: ") && Catch::Contains(" bytes in "));
  const Outcome trained = Lm(train + " trainer.max_epochs=4");
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  // Eight bits a byte are nothing learned.
  CHECK(std::stod(ValueOf(trained.output, "bits_per_byte")) < 3.6);
  testing::CheckEstimateOfRun<proto::LanguageModelConfig>(folder.File("run"));

  const Outcome evaluated = Lm("eval" + run);
  INFO(evaluated.output);
  REQUIRE(evaluated.exit_code == 0);
  CHECK_THAT(evaluated.output, Catch::Contains("held out ("));
  CHECK(ValueOf(Lm("eval" + run, 2).output, "loss") == ValueOf(evaluated.output, "loss"));
  WriteTestFile(folder.File("other.txt"), "The lamp was lit at dusk.\nQqq zzz xxq.\n");
  const Outcome other = Lm("eval data.test=" + folder.File("other.txt") + run);
  INFO(other.output);
  REQUIRE(other.exit_code == 0);
  CHECK_THAT(other.output, Catch::Contains("test (2 windows)"));

  WriteTestFile(folder.File("prompts.txt"), "Sunday, 3 March.\n\n");
  const std::string generate =
      "generate generate.max_tokens=30 generate.prompts=" + folder.File("prompts.txt") + run;
  const Outcome written = Lm(generate);
  INFO(written.output);
  REQUIRE(written.exit_code == 0);
  CHECK_THAT(written.output, Catch::Contains("Sunday, 3 March."));
  CHECK(written.output.size() > std::string("Sunday, 3 March.\n\n").size());
  CHECK(Lm(generate).output == written.output);
  CHECK(Lm(generate + " generate.seed=2").output != written.output);
  REQUIRE(Lm(generate + " predict.output=" + folder.File("out/texts.txt")).exit_code == 0);
  CHECK_THAT(ReadTestFile(folder.File("out/texts.txt")), Catch::StartsWith("Sunday, 3 March."));
  const Outcome piped = RunCommand("echo 'Sunday, 3 March.' | " +
                                   CommandOn(1, DTRAIN_TEST_PROGRAM " generate" + run));
  INFO(piped.output);
  CHECK(piped.exit_code == 0);
  CHECK_THAT(piped.output, Catch::Contains("Sunday, 3 March."));

  CHECK_THAT(Lm("eval model.num_heads=2" + run).output,
             Catch::Contains("model.num_heads is the checkpoint's, 4 in "));
  CHECK_THAT(Lm(generate, 2).output, Catch::Contains("start it without mpirun"));
}

TEST_CASE("lm_train refuses settings that cannot work, and says which") {
  const auto refused = [](const std::string& arguments) {
    const Outcome outcome = Lm(arguments);
    CHECK(outcome.exit_code == 2);
    return outcome.output;
  };
  const std::string train = "train --config=" + kPresets + "/demo.textproto ";
  CHECK_THAT(refused(train + "data.train="), Catch::Contains("no training data: set data.train"));
  CHECK_THAT(refused(train + "data.max_length=1024"),
             Catch::Contains("data.max_length (1024) exceeds model.max_positions (512)"));
  CHECK_THAT(refused(train + "model.num_heads=3"), Catch::Contains("must be a multiple"));
  CHECK_THAT(refused(train + "trainer.label_weights=1"),
             Catch::Contains("trainer.label_weights weighs classes"));
  CHECK_THAT(refused(train + "data.hold_out=0 trainer.best_metric=loss"),
             Catch::Contains("set data.dev or data.hold_out"));
  CHECK_THAT(refused(train + "trainer.best_metric=bleu"),
             Catch::Contains("but texts are measured"));
  CHECK_THAT(refused("eval"), Catch::Contains("no model is given: set --run_dir"));
}

}  // namespace
}  // namespace dtrain
