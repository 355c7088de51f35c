// bert_pretrain_test.cc - pre-training as users start it: train, eval, phases, seeds, mistakes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/random.h"
#include "dtrain/pretrain.pb.h"
#include "integration/planned_memory.h"
#include "integration/program.h"

namespace dtrain {
namespace {

// Texts that count, so that a hidden word can be told from those beside it.
class ToyTexts {
 public:
  ToyTexts() {
    std::string pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int i = 0; i < 20; ++i) pieces += Word(i) + "\n";
    WriteTestFile(File("vocab.txt"), pieces);
    WriteTestFile(File("train.txt"), Text(200, 1));
    WriteTestFile(File("dev.txt"), Text(20, 2));
  }
  std::string File(const std::string& name) const { return folder_.File(name); }

  Outcome Train(const std::string& more = "", int ranks = 1) const {
    return Run(ranks, "train data.train=" + File("train.txt") +
                          " data.vocabulary=" + File("vocab.txt") +
                          " model.num_layers=1 model.hidden_size=32 model.ffn_size=32 "
                          "model.num_heads=2 model.max_positions=40 data.max_length=24 "
                          "trainer.batch_size=20 trainer.max_epochs=4 trainer.eval_every=2e "
                          "optimizer.learning_rate=1e-2 run.progress=plain run.run_dir=" +
                          File("run") + " " + more);
  }
  Outcome Run(int ranks, const std::string& arguments) const {
    return RunCommand(CommandOn(ranks, DTRAIN_TEST_PROGRAM " " + arguments));
  }

 private:
  static std::string Word(int i) { return std::string(1, static_cast<char>('a' + i)) + "word"; }
  static std::string Text(int documents, uint64_t seed) {
    RandomStream random({.seed = seed});
    std::string text;
    for (int d = 0; d < documents; ++d) {
      uint32_t word = random.NextBelow(20);
      for (uint32_t line = 4 + random.NextBelow(5); line > 0; --line) {
        for (uint32_t i = 3 + random.NextBelow(4); i > 0; --i) {
          text += Word(static_cast<int>(word++ % 20)) + " ";
        }
        text += "\n";
      }
      text += "\n";
    }
    return text;
  }
  TemporaryFolder folder_;
};

TEST_CASE("bert_pretrain trains and evaluates, on one rank and on two") {
  const ToyTexts toy;
  const std::string dev = "data.dev=" + toy.File("dev.txt");
  const Outcome trained = toy.Train(dev);
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  CHECK_THAT(trained.output, Catch::Contains("train: 200 documents, "));
  CHECK(std::stod(ValueOf(trained.output, "mlm_loss")) < 3.0);

  const Outcome evaluated = toy.Run(1, "eval --run_dir=" + toy.File("run"));
  INFO(evaluated.output);
  CHECK(evaluated.exit_code == 0);
  CHECK_THAT(evaluated.output, Catch::Contains("nsp_accuracy"));
  CHECK(std::stod(ValueOf(evaluated.output, "mlm_loss")) < 3.0);
  const Outcome shared = toy.Run(2, "eval --run_dir=" + toy.File("run"));
  CHECK(ValueOf(shared.output, "loss") == ValueOf(evaluated.output, "loss"));

  for (const std::string name : {"num_heads=4", "layer_norm_epsilon=1e-5", "num_layers=2"}) {
    CheckFailed(toy.Run(1, "eval --run_dir=" + toy.File("run") + " model." + name), 2,
                {"model." + name.substr(0, name.find('=')) + " is the checkpoint's"});
  }
  const std::string own = " --config=" + toy.File("run/config.textproto");
  CHECK(toy.Run(1, "eval --run_dir=" + toy.File("run") + own).exit_code == 0);

  // Two ranks end where one did.
  const Outcome two = toy.Train(dev + " run.run_dir=" + toy.File("two"), 2);
  INFO(two.output);
  REQUIRE(two.exit_code == 0);
  CHECK(std::stod(ValueOf(two.output, "mlm_loss")) ==
        Approx(std::stod(ValueOf(trained.output, "mlm_loss"))).epsilon(0.02));
}

TEST_CASE("a part of the documents is held out, and a second phase goes on with longer texts") {
  const ToyTexts toy;
  const Outcome first = toy.Train("data.hold_out=0.1 trainer.max_epochs=1");
  INFO(first.output);
  REQUIRE(first.exit_code == 0);
  const Outcome evaluated = toy.Run(1, "eval --run_dir=" + toy.File("run"));
  CHECK(evaluated.exit_code == 0);
  CHECK_THAT(evaluated.output, Catch::Contains("mlm_accuracy"));
  for (const std::string from : {"run", "run/ckpt/last", "run/ckpt/last/"}) {
    std::filesystem::remove_all(toy.File("run/data"));
    const Outcome there = toy.Run(1, "eval predict.checkpoint=" + toy.File(from));
    INFO(there.output);
    CHECK(ValueOf(there.output, "loss") == ValueOf(evaluated.output, "loss"));
  }
  CHECK(std::filesystem::exists(toy.File("run/data")));
  CHECK_FALSE(std::filesystem::exists(toy.File("run/ckpt/data")));
  CHECK_FALSE(std::filesystem::exists(toy.File("run/ckpt/last/data")));
  std::string weights;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(toy.File("run/ckpt"))) {
    if (entry.path().filename() == "model.safetensors") weights = entry.path().string();
  }
  const Outcome second =
      toy.Train("data.hold_out=0.1 data.max_length=40 trainer.max_steps=2 " +
                ("model.pretrained=" + weights) + " run.run_dir=" + toy.File("phase2"));
  INFO(second.output);
  CHECK(second.exit_code == 0);
}

TEST_CASE("an estimate of pre-training is what its run plans and takes") {
  const ToyTexts toy;
  const Outcome trained = toy.Train(
      "trainer.tokens_per_batch=1500 trainer.max_steps=30 trainer.max_epochs=0 "
      "model.hidden_size=64 model.ffn_size=256 trainer.recompute=cheap data.hold_out=0");
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  testing::CheckEstimateOfRun<proto::PretrainConfig>(toy.File("run"));
}

TEST_CASE("seeds of pre-training are runs of their own, and mistakes are named") {
  const ToyTexts toy;
  const std::string dev = "data.dev=" + toy.File("dev.txt") + " ";
  const Outcome seeds = toy.Train(dev +
                                  "trainer.seeds=1,2 trainer.max_steps=3 "
                                  "data.next_sentence=false data.whole_words=true");
  INFO(seeds.output);
  CHECK(seeds.exit_code == 0);
  CHECK_THAT(seeds.output, Catch::Contains("2 seeds, last evaluations"));
  CHECK_THAT(ReadTestFile(toy.File("run/seeds.json")), Catch::Contains("\"mlm_accuracy\""));

  const std::string other = dev + "run.run_dir=" + toy.File("other") + " ";
  CheckFailed(toy.Train(other + "trainer.best_metric=auc"), 2,
              {"pre-training is measured by loss, mlm_loss"});
  CheckFailed(toy.Train(other + "data.max_length=64"), 2, {"exceeds model.max_positions"});
  WriteTestFile(toy.File("small.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\nword\n");
  CheckFailed(toy.Train(other + "data.vocabulary=" + toy.File("small.txt")), 2,
              {"data.vocabulary: ", "small.txt has no [MASK]"});
  WriteTestFile(toy.File("three.txt"), "aword\n\nbword\n\ncword\n");
  CheckFailed(
      toy.Train("data.train=" + toy.File("three.txt") + " run.run_dir=" + toy.File("three")), 3,
      {"three.txt: of 3 documents 0 are held out", "try data.hold_out=0.5"});
  WriteTestFile(toy.File("bad.txt"), "good\nbad \xff\n");
  CheckFailed(toy.Train(other + "data.train=" + toy.File("bad.txt")), 3,
              {"bad.txt:2: invalid UTF-8"});
  CheckFailed(toy.Run(1, "eval --run_dir=" + toy.File("run/seed-1") + " data.next_sentence=true"),
              7, {"data.next_sentence"});
}

TEST_CASE("a vocabulary that does not fit the texts' capitals brings a warning") {
  const ToyTexts toy;
  const std::string brief = "trainer.max_steps=1 data.hold_out=0 ";
  const Outcome fitting = toy.Train(brief);
  INFO(fitting.output);
  CHECK(fitting.exit_code == 0);
  CHECK_THAT(fitting.output, !Catch::Contains("capital"));
  const Outcome kept = toy.Train(brief + "data.lower_case=false run.run_dir=" + toy.File("kept"));
  CHECK(kept.exit_code == 0);
  CHECK_THAT(kept.output, Catch::Contains("vocab.txt: no piece has a capital") &&
                              Catch::Contains("data.lower_case=true"));
  const std::string cased = toy.File("cased.txt");
  WriteTestFile(cased, ReadTestFile(toy.File("vocab.txt")) + "Berlin\n");
  const Outcome lost =
      toy.Train(brief + "data.vocabulary=" + cased + " run.run_dir=" + toy.File("lost"));
  CHECK(lost.exit_code == 0);
  CHECK_THAT(lost.output, Catch::Contains("1 of 26 pieces have capitals") &&
                              Catch::Contains("data.lower_case=false"));
}

}  // namespace
}  // namespace dtrain
