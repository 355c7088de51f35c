// program_test.cc - bert_tag as users start it, on the example's sentences.
// SPDX-License-Identifier: Apache-2.0
#include "integration/program.h"

#include <filesystem>
#include <string>

#include "dtrain/tasks/token_classification/conll_reader.h"
#include "dtrain/token_classification.pb.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

Outcome Tag(const std::string& arguments, int ranks = 1) {
  return RunCommand(CommandOn(ranks, DTRAIN_TEST_PROGRAM " " + arguments));
}

const std::string kPresets = testing::PresetsDirectory("bert_tag");

TEST_CASE("bert_tag trains, evaluates and tags the example's sentences") {
  const TemporaryFolder folder;
  const std::string run = " --run_dir=" + folder.File("run");
  const Outcome trained =
      Tag("train --config=" + kPresets + "/demo.textproto run.progress=plain" + run);
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  CHECK_THAT(trained.output, Catch::Contains("train: 240 sentences of "));
  CHECK(std::stod(ValueOf(trained.output, "f1")) > 0.6);

  const Outcome evaluated = Tag("eval" + run);
  INFO(evaluated.output);
  REQUIRE(evaluated.exit_code == 0);
  CHECK_THAT(evaluated.output, Catch::Contains("dev (60 sentences)"));
  CHECK(ValueOf(Tag("eval" + run, 2).output, "loss") == ValueOf(evaluated.output, "loss"));

  // Words alone are enough to be tagged.
  WriteTestFile(folder.File("new.conll"), "Mara\nFalk\nlives\nin\nPort\nAlder\n.\n");
  const Outcome predicted = Tag("predict data.test=" + folder.File("new.conll") + run);
  INFO(predicted.output);
  REQUIRE(predicted.exit_code == 0);
  const auto tagged = ReadConll({folder.File("run/predictions.conll")}, {});
  REQUIRE(tagged.ok());
  REQUIRE(tagged->sentences.size() == 1);
  CHECK(tagged->sentences[0].tags ==
        std::vector<std::string>{"B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "O"});
}

TEST_CASE("bert_tag refuses settings that cannot work, and says which") {
  const auto refused = [](const std::string& arguments) {
    const Outcome outcome = Tag(arguments);
    CHECK(outcome.exit_code == 2);
    return outcome.output;
  };
  const std::string train = "train --config=" + kPresets + "/demo.textproto ";
  CHECK_THAT(refused(train + "data.train="), Catch::Contains("no training data: set data.train"));
  CHECK_THAT(refused(train + "data.tags=O data.tags+=O"), Catch::Contains("lists a tag twice"));
  CHECK_THAT(refused(train + "data.tag_column=0"),
             Catch::Contains("data.word_column and data.tag_column are both 0"));
  CHECK_THAT(refused(train + "trainer.label_weights=1"),
             Catch::Contains("trainer.label_weights weighs classes"));
  CHECK_THAT(refused(train + "trainer.best_metric=bleu"), Catch::Contains("but tags are measured"));
  CHECK_THAT(refused(train + "model.mean_pooling=true"),
             Catch::Contains("model.mean_pooling is for bert_classify"));
  for (const std::string key :
       {"local_attention=64", "whole_every=2", "local_theta=9999", "whole_theta=9999"}) {
    CHECK_THAT(
        refused(train + "model." + key),
        Catch::Contains("model." + key.substr(0, key.find('=')) +
                        " is for ModernBERT; a BERT has neither windows nor rotary positions"));
  }
  CHECK_THAT(refused("eval"), Catch::Contains("no model is given: set --run_dir"));
}

}  // namespace
}  // namespace dtrain
