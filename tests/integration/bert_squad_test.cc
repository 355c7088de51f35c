// bert_squad_test.cc - question answering as users start it: train, eval, predict, resume, export.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "dtrain/squad.pb.h"
#include "dtrain/tasks/classification/head.h"
#include "dtrain/tasks/registry.h"
#include "integration/planned_memory.h"
#include "integration/program.h"
#include "tasks/shared/saved_weights.h"
#include "testing/toy_squad.h"

namespace dtrain {
namespace {

class ToyQuestions {
 public:
  explicit ToyQuestions(int impossible = 0) {
    std::string pieces;
    for (const std::string& piece : testing::ToySquadPieces()) pieces += piece + "\n";
    WriteTestFile(File("vocab.txt"), pieces);
    WriteTestFile(File("train.json"), testing::ToySquad(300, 1, impossible));
    WriteTestFile(File("dev.json"), testing::ToySquad(40, 2, impossible));
  }
  std::string File(const std::string& name) const { return folder_.File(name); }

  Outcome Train(const std::string& more = "", int ranks = 1) const {
    return Run(ranks, "train data.train=" + File("train.json") + " data.dev=" + File("dev.json") +
                          " data.vocabulary=" + File("vocab.txt") +
                          " model.num_layers=1 model.hidden_size=32 model.ffn_size=32 "
                          "model.num_heads=2 model.max_positions=32 data.max_length=32 "
                          "data.max_question=8 data.stride=8 trainer.batch_size=20 "
                          "trainer.max_epochs=8 optimizer.learning_rate=1e-2 run.progress=plain "
                          "run.run_dir=" +
                          File("run") + " " + more);
  }
  Outcome Run(int ranks, const std::string& arguments) const {
    return RunCommand(CommandOn(ranks, DTRAIN_TEST_PROGRAM " " + arguments));
  }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("bert_squad trains, evaluates and answers") {
  const ToyQuestions toy;
  const Outcome trained = toy.Train();
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  CHECK_THAT(trained.output, Catch::Contains("train: 300 questions on 300 texts, "));
  CHECK(trained.output.find("ppl") == std::string::npos);
  CHECK(std::stod(ValueOf(trained.output, "exact_match")) > 90.0);

  const Outcome evaluated = toy.Run(1, "eval --run_dir=" + toy.File("run"));
  INFO(evaluated.output);
  CHECK(evaluated.exit_code == 0);
  CHECK_THAT(evaluated.output, Catch::Contains("dev (40 questions)"));
  CHECK(std::stod(ValueOf(evaluated.output, "f1")) > 90.0);
  const Outcome shared = toy.Run(2, "eval --run_dir=" + toy.File("run"));
  CHECK(ValueOf(shared.output, "loss") == ValueOf(evaluated.output, "loss"));

  WriteTestFile(toy.File("other.json"), testing::ToySquad(30, 3));
  const Outcome both =
      toy.Run(1, "eval --run_dir=" + toy.File("run") + " data.dev=" + toy.File("dev.json") +
                     " data.test=" + toy.File("other.json"));
  INFO(both.output);
  CHECK_THAT(both.output, Catch::Contains("dev (40 questions)"));
  CHECK_THAT(both.output, Catch::Contains("test (30 questions)"));
  // What is named counts, not what the run had.
  const Outcome named =
      toy.Run(1, "eval --run_dir=" + toy.File("run") + " data.test=" + toy.File("other.json"));
  INFO(named.output);
  CHECK(named.exit_code == 0);
  CHECK_THAT(named.output, !Catch::Contains("dev ("));

  // Questions without answers are enough to be answered.
  WriteTestFile(toy.File("new.json"),
                R"({"data": [{"paragraphs": [{"context": "The old house and a red DOGS tree.",)"
                R"("qas": [{"id": "x", "question": "Who came?"}]}]}]})");
  const Outcome predicted =
      toy.Run(1, "predict --run_dir=" + toy.File("run") + " data.test=" + toy.File("new.json"));
  INFO(predicted.output);
  CHECK(predicted.exit_code == 0);
  const auto read = [&](const std::string& name) {
    return nlohmann::json::parse(ReadTestFile(toy.File("run/predictions/" + name)));
  };
  CHECK(read("predictions.json")["x"] == "red DOGS");
  CHECK(read("nbest_predictions.json")["x"][0]["text"] == "red DOGS");
  CHECK_FALSE(std::filesystem::exists(toy.File("run/predictions/null_odds.json")));
  const std::string kept = testing::ToySquad(5, 4);
  WriteTestFile(toy.File("run/predictions/nbest_predictions.json"), kept);
  CheckFailed(toy.Run(1, "predict --run_dir=" + toy.File("run") +
                             " data.test=" + toy.File("run/predictions/nbest_predictions.json")),
              2, {"predict.output: ", "nbest_predictions.json is also an input"});
  CHECK(ReadTestFile(toy.File("run/predictions/nbest_predictions.json")) == kept);

  REQUIRE(toy.Train("trainer.max_steps=1 data.test=" + toy.File("new.json") +
                    " run.run_dir=" + toy.File("tested"))
              .exit_code == 0);
  const Outcome chosen =
      toy.Run(1, "predict --run_dir=" + toy.File("tested") + " data.dev=" + toy.File("dev.json"));
  INFO(chosen.output);
  CHECK_THAT(chosen.output, Catch::Contains("40 questions answered"));
  // An emptied list is not the run's.
  CHECK_THAT(toy.Run(1, "predict --run_dir=" + toy.File("tested") + " data.test=").output,
             Catch::Contains("40 questions answered"));
}

TEST_CASE("ranks that read other questions, or another checkpoint, answer none") {
  const ToyQuestions toy;
  REQUIRE(toy.Train("trainer.max_steps=2").exit_code == 0);
  REQUIRE(
      toy.Train("trainer.max_steps=2 trainer.seeds=2 run.run_dir=" + toy.File("run1")).exit_code ==
      0);
  std::filesystem::rename(toy.File("run"), toy.File("run0"));
  WriteTestFile(toy.File("dev0.json"), testing::ToySquad(40, 4));
  WriteTestFile(toy.File("dev1.json"), testing::ToySquad(40, 5));
  // Of each rank's own number.
  const auto predict = [&](const std::string& run, const std::string& dev) {
    return RunCommand(CommandOn(
        2, "sh -c '" DTRAIN_TEST_PROGRAM " predict --run_dir=" + toy.File(run) +
               " data.test=" + toy.File(dev) + ".json predict.output=" + toy.File("out") + "'"));
  };
  const std::string rank = std::string("$") + launcher::kRankVariable;
  CheckFailed(predict("run0", "dev" + rank), 2, {"questions", "crc32c"});
  CheckFailed(predict("run" + rank, "dev0"), 2, {"checkpoint", "manifest crc32c"});
  CHECK(predict("run0", "dev0").exit_code == 0);
}

TEST_CASE("a model learns from SQuAD 2.0 that questions may have no answer") {
  const ToyQuestions toy(3);
  const Outcome trained = toy.Train("", 2);
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  CHECK_THAT(trained.output, Catch::Contains("100 without an answer"));
  CHECK(std::stod(ValueOf(trained.output, "no_answer_exact")) > 80.0);
  WriteTestFile(toy.File("new.json"),
                R"({"data": [{"paragraphs": [{"context": "The old house and a tree.",)"
                R"("qas": [{"id": "x", "question": "Who came?"}]}]}]})");
  const Outcome predicted =
      toy.Run(1, "predict --run_dir=" + toy.File("run") + " data.test=" + toy.File("new.json") +
                     " predict.output=" + toy.File("answers"));
  INFO(predicted.output);
  CHECK(predicted.exit_code == 0);
  CHECK(nlohmann::json::parse(ReadTestFile(toy.File("answers/predictions.json")))["x"] == "");
  CHECK(nlohmann::json::parse(ReadTestFile(toy.File("answers/null_odds.json")))["x"] > 0.0);
}

TEST_CASE("question answering starts from other models' weights and says which were of use") {
  const ToyQuestions toy;
  const auto pieces = static_cast<int64_t>(testing::ToySquadPieces().size());
  BertClassifier classifier({.bert = {.vocab_size = pieces,
                                      .hidden_size = 32,
                                      .num_layers = 1,
                                      .num_heads = 2,
                                      .ffn_size = 32,
                                      .max_positions = 32},
                             .num_labels = 2});
  classifier.Allocate({}, DType::kFloat32, /*seed=*/3);
  testing::SaveWeights(classifier.parameters(),
                       {{"config.textproto",
                         "model { num_layers: 1 hidden_size: 32 num_heads: 2 ffn_size: 32 "
                         "max_positions: 32 }\ndata { max_length: 32 lower_case: true }\n"},
                        {"vocab.txt", ReadTestFile(toy.File("vocab.txt"))},
                        {"labels.txt", "no\nyes\n"}},
                       toy.File("classifier/ckpt"));
  REQUIRE(ExportRunToHuggingFace(toy.File("classifier"), "", toy.File("exported")).ok());
  const auto started = [&](const std::string& run, const std::string& weights) {
    const Outcome outcome = toy.Train("trainer.max_steps=1 run.run_dir=" + toy.File(run) +
                                      " model.pretrained=" + toy.File(weights));
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
    return outcome.output;
  };
  const auto new_heads = Catch::Contains(
      "newly initialised: qa_outputs.bias, qa_outputs.weight; unused: bert.pooler.dense.bias, "
      "bert.pooler.dense.weight, classifier.bias, classifier.weight");
  CHECK_THAT(started("run", "exported"), new_heads);
  CHECK_THAT(started("second", "classifier/ckpt/last/model.safetensors"), new_heads);
  CHECK_THAT(started("third", "run/ckpt/last/model.safetensors"),
             Catch::Contains("newly initialised: none; unused: none"));
  // Begun, a run needs them no more.
  std::filesystem::remove_all(toy.File("exported"));
  const Outcome later =
      toy.Train("trainer.max_steps=2 data.vocabulary= model.pretrained=" + toy.File("exported"));
  INFO(later.output);
  CHECK(later.exit_code == 0);
  CHECK_THAT(later.output, Catch::Contains("done (max_steps): 2 updates"));
}

TEST_CASE("an estimate of question answering is what its run plans and takes") {
  const ToyQuestions toy;
  const Outcome trained = toy.Train(
      "trainer.tokens_per_batch=1500 trainer.max_steps=30 trainer.max_epochs=0 "
      "model.hidden_size=64 model.ffn_size=256 trainer.recompute=cheap");
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  testing::CheckEstimateOfRun<proto::SquadConfig>(toy.File("run"));
}

TEST_CASE("seeds of question answering are runs of their own, and mistakes are named") {
  const ToyQuestions toy;
  const Outcome seeds = toy.Train("trainer.seeds=1,2 trainer.max_steps=3");
  INFO(seeds.output);
  CHECK(seeds.exit_code == 0);
  CHECK_THAT(seeds.output, Catch::Contains("2 seeds, last evaluations"));
  CHECK_THAT(ReadTestFile(toy.File("run/seeds.json")), Catch::Contains("\"f1\""));

  const std::string other = "run.run_dir=" + toy.File("other") + " ";
  CheckFailed(toy.Train(other + "trainer.best_metric=auc"), 2,
              {"answers are measured by loss, f1"});
  CheckFailed(toy.Train(other + "trainer.label_weights=1"), 2, {"trainer.label_weights"});
  for (const std::string metric : {"trainer.best_metric", "trainer.early_stop.metric"}) {
    CheckFailed(toy.Train(other + "data.dev= " + metric + "=f1"), 2,
                {metric + " needs evaluations: set data.dev"});
  }
  const Outcome blind = toy.Train("data.dev= trainer.max_steps=1 run.run_dir=" + toy.File("blind"));
  CHECK(blind.exit_code == 0);
  CHECK(blind.output.find("eval @") == std::string::npos);
  CheckFailed(toy.Train(other + "data.max_question=40"), 2, {"leaves no room for a context"});
  CheckFailed(toy.Train(other + "data.stride=400"), 2,
              {"data.stride (400) is beyond the window", "lower data.stride"});
  CHECK(seeds.output.find("answer_start") == std::string::npos);
  WriteTestFile(toy.File("moved.json"),
                R"({"data": [{"paragraphs": [{"context": "a red dog", "qas": [{"id": "x",)"
                R"("question": "who?", "answers": [{"text": "red dog", "answer_start": 3},)"
                R"({"text": "cow", "answer_start": 3}]}]}]}]})");
  const std::string moved = toy.Train("trainer.max_steps=1 data.dev=" + toy.File("moved.json") +
                                      " run.run_dir=" + toy.File("moved"))
                                .output;
  CHECK_THAT(moved, Catch::Contains("dev: 1 answers do not stand at answer_start"));
  CHECK_THAT(moved, Catch::Contains("dev: 1 answers are empty or stand nowhere"));
  CHECK(seeds.output.find("capital") == std::string::npos);
  CHECK_THAT(toy.Train("trainer.max_steps=1 data.lower_case=false run.run_dir=" + toy.File("cased"))
                 .output,
             Catch::Contains("no piece has a capital"));
  WriteTestFile(toy.File("broken.json"), "{\"data\": [}");
  CheckFailed(toy.Train(other + "data.train=" + toy.File("broken.json")), 3, {"broken.json"});
  CheckFailed(toy.Run(1, "eval --run_dir=" + toy.File("run/seed-1") + " data.max_length=64"), 2,
              {"exceeds the 32 positions"});
  const std::string eval = "eval --run_dir=" + toy.File("run/seed-1") + " ";
  for (const std::string name :
       {"num_heads=4", "activation=relu", "layer_norm_epsilon=1e-5", "max_positions=64"}) {
    CheckFailed(toy.Run(1, eval + "model." + name), 2,
                {"model." + name.substr(0, name.find('=')) + " is the checkpoint's"});
  }
  CHECK(toy.Run(1, eval + "model.num_heads=2").exit_code == 0);
  CheckFailed(toy.Run(1, eval + "model.classifier_dropout=0.5"), 2, {"model.classifier_dropout"});
  CHECK(toy.Run(1, eval + "--config=" + toy.File("run/seed-1/config.textproto")).exit_code == 0);
}

}  // namespace
}  // namespace dtrain
