// nmt_train_sources_test.cc - training text in several sources, on any number of ranks.
// SPDX-License-Identifier: Apache-2.0
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "integration/nmt_train_program.h"

namespace dtrain {
namespace {

// The toy's text, and 30 pairs with a tag that are half of each epoch.
std::string Sources(const ToyProgram& toy, const std::string& weight = "1") {
  std::string text;
  for (int i = 0; i < 30; ++i) {
    const std::string word = "fa" + std::string(static_cast<size_t>(1 + i), "gh"[i % 2]);
    text += word + "\t" + std::string(word.rbegin(), word.rend()) + "\n";
  }
  WriteTestFile(toy.File("field.tsv"), text);
  return " data.hold_out_dev=0 'data.sources=[{source: \"" + toy.File("train.src") +
         "\" target: \"" + toy.File("train.tgt") + "\"}, {tsv: \"" + toy.File("field.tsv") +
         "\" weight: " + weight + " tag: \"<field>\"}]'";
}

// The loss of each update.
std::vector<double> Losses(const ToyProgram& toy) {
  std::istringstream lines(ReadTestFile(toy.run_dir() + "/metrics/steps.jsonl"));
  std::vector<double> losses;
  static const std::regex pattern(R"re("loss":\s*([-+.0-9eE]+))re");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) losses.push_back(std::stod(match[1]));
  }
  return losses;
}

TEST_CASE("sources train to the same losses on any number of ranks, over several epochs") {
  std::vector<std::vector<double>> of_ranks;
  for (const int ranks : {1, 2}) {
    const ToyProgram toy;
    const Outcome outcome =
        toy.Run(ranks, Sources(toy) + " trainer.max_steps=60 trainer.log_every=1");
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    CHECK_THAT(toy.Log(), Catch::Contains("source 2: 30 pairs, weight 1, tag <field>: "));
    of_ranks.push_back(Losses(toy));
  }
  REQUIRE(of_ranks[0].size() == 60);
  REQUIRE(of_ranks[1].size() == 60);
  for (size_t i = 0; i < 60; ++i) {
    INFO("update " << i + 1);
    CHECK(of_ranks[1][i] == Approx(of_ranks[0][i]).epsilon(1e-4));
  }
}

TEST_CASE("a run with sources goes on to the same bits, and its order on other ranks") {
  const ToyProgram whole;
  REQUIRE(whole.Run(2, Sources(whole) + " trainer.max_steps=50").exit_code == 0);
  const ToyProgram stopped;
  REQUIRE(stopped.Run(2, Sources(stopped) + " trainer.max_steps=30").exit_code == 0);
  REQUIRE(stopped.Run(2, Sources(stopped) + " trainer.max_steps=50").exit_code == 0);
  CHECK_THAT(stopped.Log(), Catch::Contains("going on from"));
  CHECK(ReadTestFile(stopped.CheckpointFile(50)) == ReadTestFile(whole.CheckpointFile(50)));
  // From the second epoch on, by one rank.
  const ToyProgram moved;
  const std::string every_loss = Sources(moved) + " trainer.log_every=1 trainer.max_steps=";
  REQUIRE(moved.Run(2, every_loss + "30").exit_code == 0);
  REQUIRE(moved.Run(1, every_loss + "50").exit_code == 0);
  const ToyProgram alone;
  REQUIRE(alone.Run(1, Sources(alone) + " trainer.log_every=1 trainer.max_steps=50").exit_code ==
          0);
  const std::vector<double> expected = Losses(alone);
  const std::vector<double> found = Losses(moved);
  REQUIRE(found.size() == 50);
  REQUIRE(expected.size() == 50);
  for (size_t i = 0; i < 50; ++i) CHECK(found[i] == Approx(expected[i]).epsilon(1e-4));
}

TEST_CASE("other weights are other data, which a run that goes on says") {
  const ToyProgram toy;
  REQUIRE(toy.Run(1, Sources(toy)).exit_code == 0);
  CheckFailed(toy.Run(1, Sources(toy, "2") + " trainer.max_steps=30"), 2,
              {"data.sources, item 2: weight is 1 there, 2 now"});
}

TEST_CASE("a run goes on with another field's text mixed in, but not with a tag it never saw") {
  const ToyProgram toy;
  REQUIRE(toy.Run(1, toy.Corpus()).exit_code == 0);
  const std::string tuned = " --init=" + toy.run_dir() + " --run_dir=" + toy.File("tuned");
  CheckFailed(toy.Run(1, Sources(toy) + tuned), 2,
              {"data.sources, item 2", "tag '<field>' is not a piece of the vocabulary"});
  const std::string mixed = " data.hold_out_dev=0 'data.sources=[{tsv: \"" + toy.File("field.tsv") +
                            "\"}, {source: \"" + toy.File("train.src") + "\" target: \"" +
                            toy.File("train.tgt") + "\" weight: 0.5}]'";
  const Outcome outcome = toy.Run(2, mixed + tuned);
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("sources that cannot be are refused before anything is made") {
  const ToyProgram toy;
  CheckFailed(toy.Run(1, Sources(toy) + toy.Corpus()), 2,
              {"data.sources is all of the training text"});
  CheckFailed(toy.Run(1, Sources(toy, "0")), 2,
              {"data.sources, item 2: weight is 0; it must be above 0"});
  CHECK_FALSE(std::filesystem::exists(toy.run_dir()));
  WriteTestFile(toy.File("short.tgt"), "one line\n");
  CheckFailed(toy.Run(1, " 'data.sources={source: \"" + toy.File("train.src") + "\" target: \"" +
                             toy.File("short.tgt") + "\"}'"),
              3, {"train.src", "short.tgt", "300", "1"});
}

}  // namespace
}  // namespace dtrain
