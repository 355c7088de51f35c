// program_config_test.cc - whose configuration dtrain estimate and dtrain plan are given.
// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>

#include "dtrain/config/config.h"
#include "dtrain/tasks/registry.h"
#include "integration/program.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

// All programs but nmt_train: "a, b or c", where `word` is "or".
std::string OtherPrograms(const std::string& word) {
  std::string list;
  for (const TaskProgram* const program : TaskPrograms().subspan(1)) {
    const bool is_last = program == TaskPrograms().back();
    if (!list.empty()) list += is_last ? " " + word + " " : ", ";
    list += program->name;
  }
  return list;
}

Outcome Tool(const std::string& arguments) {
  return RunCommand(DTRAIN_TEST_PROGRAM " " + arguments);
}

TEST_CASE("every program names the ten of its keys that are used most") {
  for (const TaskProgram* const program : TaskPrograms()) {
    INFO(program->name);
    CHECK(program->most_used.size() == 10);
    CHECK(DescribeConfig(*program->new_config(), "", program->most_used).ok());
  }
}

TEST_CASE("estimate finds out whose configuration it is given") {
  const auto estimate = [](const std::string& arguments) {
    const Outcome outcome = Tool("estimate --json run.device=cpu " + arguments);
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    return nlohmann::json::parse(outcome.output);
  };
  const auto preset = [](const std::string& program, const std::string& name) {
    return "--config=" + testing::PresetsDirectory(program) + "/" + name + ".textproto ";
  };
  const nlohmann::json demo = estimate(preset("bert_pretrain", "demo"));
  CHECK(demo.at("program") == "bert_pretrain");
  CHECK(demo.at("micro_batch").at("texts") == 64);
  CHECK(demo.at("notes").empty());
  const nlohmann::json squad = estimate(preset("bert_squad", "base") + "--flops=1e12");
  CHECK(squad.at("program") == "bert_squad");
  CHECK(squad.at("parameters").at("total") == 108893186);
  CHECK(squad.at("micro_batch").at("tokens") == 12 * 384);
  CHECK(squad.at("seconds_per_update").get<double>() ==
        Approx(squad.at("flops_per_update").get<double>() / 1e12));
  CHECK(estimate(preset("bert_classify", "demo")).at("program") == "bert_classify");
  CHECK(estimate("data.vocab_size=1000").at("program") == "nmt_train");

  const std::string classify = preset("bert_classify", "base");
  const nlohmann::json base = estimate("--program=bert_classify " + classify);
  CHECK(base.at("parameters").at("total") == 109483778);
  const Outcome text = Tool("estimate --program=bert_classify trainer.batch_size=8 " + classify);
  CHECK_THAT(text.output, Catch::Contains("activations of 8 texts of 1024 tokens together"));
}

TEST_CASE("a configuration of no program, or of several, is refused with what to do") {
  const auto refused = [](const std::string& arguments) {
    const Outcome outcome = Tool("estimate " + arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(Tool("plan --step_seconds=1 " + arguments).output == outcome.output);
    return outcome.output;
  };
  const std::string classify =
      " --config=" + testing::PresetsDirectory("bert_classify") + "/base.textproto ";
  CHECK_THAT(refused(classify),
             Catch::Contains("are known to " + OtherPrograms("and") +
                             ": say whose it is with --program=bert_classify, or set a key that no "
                             "other program has, such as ") &&
                 Catch::Contains(" of bert_classify, ") && Catch::Contains("data.stride of "));
  CHECK_THAT(refused("model.hidden_size=64"), Catch::Contains("--program=nmt_train"));
  CHECK_THAT(refused("--program=bert model.hidden_size=64"),
             Catch::Contains("--program is \"bert\", which is none of nmt_train, bert_classify, "));
  // As of the programs that the rest is for.
  CHECK_THAT(refused("data.vocab_size=7" + classify),
             Catch::Contains("as one of bert_classify, bert_pretrain, bert_squad or bert_tag: "
                             "data.vocab_size=7: unknown key") &&
                 Catch::Contains("as one of lm_train: data.vocab_size=7: unknown key"));
  CHECK_THAT(refused("data.glue=sst-2 data.stride=64"),
             Catch::Contains("as one of bert_classify: data.stride=64: unknown key"));
  const std::string misspelled = refused("model.nun_layers=8");
  CHECK_THAT(misspelled, Catch::Contains("as one of nmt_train: ") &&
                             Catch::Contains("as one of " + OtherPrograms("or") + ": ") &&
                             Catch::Contains("did you mean"));
  CHECK(refused("--config=/absent").find("as one of") == std::string::npos);
}

TEST_CASE("estimate says which files it would need, and does without where it can") {
  const std::string squad = "estimate run.device=cpu data.stride=8 ";
  const Outcome weights = Tool(squad + "model.pretrained=/absent/bert");
  CHECK(weights.exit_code == 2);
  CHECK_THAT(weights.output, Catch::Contains("/absent/bert is not on this machine") &&
                                 Catch::Contains("copy its config.json there, or give model."));
  const std::string shape = "model.num_layers=2 model.hidden_size=96 model.ffn_size=200 ";
  const Outcome shaped = Tool(squad + shape + "model.pretrained=/absent/bert");
  INFO(shaped.output);
  CHECK(shaped.exit_code == 0);
  CHECK_THAT(shaped.output,
             Catch::Contains("note  model.pretrained: no config.json is at /absent/bert") &&
                 Catch::Contains("note  data.vocabulary: not set; taken for BERT's 30522 pieces"));
  CHECK_THAT(Tool(squad + "data.vocabulary=/absent.txt").output,
             Catch::Contains("note  data.vocabulary: no file /absent.txt; taken for BERT's"));

  // A config.json alone is enough.
  const TemporaryFolder folder;
  WriteTestFile(folder.File("config.json"),
                R"({"num_hidden_layers": 2, "hidden_size": 96, "num_attention_heads": 4,
                "intermediate_size": 200, "vocab_size": 77})");
  const Outcome json = Tool(squad + "--json model.pretrained=" + folder.path());
  INFO(json.output);
  REQUIRE(json.exit_code == 0);
  const nlohmann::json estimate = nlohmann::json::parse(json.output);
  CHECK(estimate.at("vocab_size") == 77);
  CHECK(estimate.at("notes").empty());
  CHECK(estimate.at("parameters").at("embeddings") == (77 + 512 + 2) * 96);
}

}  // namespace
}  // namespace dtrain
