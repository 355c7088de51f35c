// bert_classify_test.cc - the classifier as users start it: train, eval, predict, seeds, ranks.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "dtrain/base/random.h"
#include "dtrain/formats/safetensors.h"
#include "integration/program.h"

namespace dtrain {
namespace {

// Reviews of some words that are good or bad, and command lines for them.
class ToyTexts {
 public:
  ToyTexts() {
    WriteTestFile(File("vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\na\nfilm\nb\n");
    WriteTestFile(File("train.tsv"), Rows(200, 1));
    WriteTestFile(File("dev.tsv"), Rows(40, 2));
    WriteTestFile(File("new.tsv"), "text\na good film\na bad film\n");
  }
  std::string File(const std::string& name) const { return folder_.File(name); }
  void WriteRows(const std::string& name, int count, uint64_t seed) const {
    WriteTestFile(File(name), Rows(count, seed));
  }

  Outcome Train(const std::string& more = "", int ranks = 1) const {
    return Run(ranks, "train data.train=" + File("train.tsv") + " data.dev=" + File("dev.tsv") +
                          " data.vocabulary=" + File("vocab.txt") +
                          " model.num_layers=1 model.hidden_size=32 model.ffn_size=32 "
                          "model.num_heads=2 model.max_positions=32 data.max_length=32 "
                          "trainer.batch_size=20 trainer.max_epochs=4 optimizer.learning_rate=5e-3 "
                          "run.progress=plain run.run_dir=" +
                          File("run") + " " + more);
  }
  Outcome Run(int ranks, const std::string& arguments) const {
    return RunCommand(CommandOn(ranks, DTRAIN_TEST_PROGRAM " " + arguments));
  }

 private:
  static std::string Rows(int count, uint64_t seed) {
    std::string text = "text\tlabel\n";
    RandomStream random({.seed = seed});
    for (int i = 0; i < count; ++i) {
      const bool good = random.NextBelow(2) == 0;
      for (uint32_t words = random.NextBelow(6); words > 0; --words) text += "a film ";
      text += good ? "good b\tpraise\n" : "bad b\tblame\n";
    }
    return text;
  }

  TemporaryFolder folder_;
};

TEST_CASE("bert_classify trains, evaluates and predicts") {
  const ToyTexts toy;
  const Outcome trained = toy.Train();
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  CHECK_THAT(trained.output, Catch::Contains("200 training texts are few"));
  CHECK_THAT(trained.output, Catch::Contains("train: 200 texts (blame ") &&
                                 Catch::Contains("dev: 40 texts (blame ") &&
                                 !Catch::Contains("held out"));
  CHECK(trained.output.find("capital") == std::string::npos);
  CHECK(ValueOf(trained.output, "accuracy") == "1.0000");

  const Outcome evaluated = toy.Run(1, "eval --run_dir=" + toy.File("run"));
  INFO(evaluated.output);
  CHECK(evaluated.exit_code == 0);
  CHECK_THAT(evaluated.output, Catch::Contains("dev (40 texts)"));
  CHECK(ValueOf(evaluated.output, "accuracy") == "1.0000");
  const Outcome shared = toy.Run(2, "eval --run_dir=" + toy.File("run"));
  CHECK(ValueOf(shared.output, "loss") == ValueOf(evaluated.output, "loss"));

  const Outcome predicted =
      toy.Run(1, "predict --run_dir=" + toy.File("run") + " data.test=" + toy.File("new.tsv"));
  INFO(predicted.output);
  CHECK(predicted.exit_code == 0);
  const std::string predictions = ReadTestFile(toy.File("run/predictions.tsv"));
  CHECK_THAT(predictions, Catch::StartsWith("id\tlabel\tp_blame\tp_praise\n1\tpraise\t"));
  CHECK_THAT(predictions, Catch::Contains("\n2\tblame\t"));
  CHECK(CountOf(predictions, "\n") == 3);
}

// True for tables with the same words, and numbers that differ by rounding: a text's batch decides
// in which order its products are added.
bool SameTable(const std::string& a, const std::string& b) {
  std::istringstream left(a), right(b);
  std::string x, y;
  while (left >> x) {
    double p = 0, q = 0;
    if (!(right >> y)) return false;
    const bool are_numbers = absl::SimpleAtod(x, &p) && absl::SimpleAtod(y, &q);
    if (x != y && !(are_numbers && std::abs(p - q) < 1e-5)) return false;
  }
  return !(right >> y);
}

TEST_CASE("lines of the standard input are predicted as those of a file, and as they come") {
  const ToyTexts toy;
  REQUIRE(toy.Train("trainer.max_steps=5").exit_code == 0);
  const std::string run = DTRAIN_TEST_PROGRAM " predict --run_dir=" + toy.File("run");
  REQUIRE(RunCommand(run + " data.test=" + toy.File("new.tsv")).exit_code == 0);
  const std::string pipe = toy.File("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::string out = toy.File("out");
  Job job("{ " + run + " data.test=- < " + pipe + " > " + out + " ; }");
  std::ofstream writer(pipe);
  writer << "a good film" << std::endl;
  REQUIRE(WaitUntil([&] { return CountOf(ReadTestFile(out), "\n") == 2; }, 30));
  writer << "a bad film\n" << std::flush;
  writer.close();
  CHECK(job.Wait().exit_code == 0);
  CHECK(SameTable(ReadTestFile(out), ReadTestFile(toy.File("run/predictions.tsv"))));
}

TEST_CASE("texts that are not UTF-8 are predicted and counted, and refused in training") {
  const ToyTexts toy;
  REQUIRE(toy.Train("trainer.max_steps=2").exit_code == 0);
  WriteTestFile(toy.File("odd.tsv"),
                "text\na good film\na b\xFF"
                "d film\n");
  const std::string predict =
      "predict --run_dir=" + toy.File("run") + " data.test=" + toy.File("odd.tsv");
  const Outcome predicted = toy.Run(1, predict);
  CHECK(predicted.exit_code == 0);
  CHECK_THAT(predicted.output, Catch::Contains("test: 2 texts predicted") &&
                                   Catch::Contains("1 row has bytes that are not UTF-8"));
  CheckFailed(toy.Run(1, predict + " predict.invalid=fail"), 3, {"odd.tsv:3: row 2"});
  WriteTestFile(toy.File("odd_train.tsv"),
                "text\tlabel\na b\xFF"
                "d film\tblame\n");
  CheckFailed(toy.Train("run.resume=auto data.train=" + toy.File("odd_train.tsv") +
                        " run.run_dir=" + toy.File("other")),
              3, {"odd_train.tsv:2: row 1"});
}

TEST_CASE("a list of texts that is emptied is not the run's") {
  const ToyTexts toy;
  REQUIRE(toy.Train("trainer.max_steps=2 data.test=" + toy.File("new.tsv")).exit_code == 0);
  const std::string run = " --run_dir=" + toy.File("run");
  REQUIRE(toy.Run(1, "predict" + run).exit_code == 0);
  CHECK(CountOf(ReadTestFile(toy.File("run/predictions.tsv")), "\n") == 3);
  // The dev set is predicted where there is no test set.
  const Outcome of_dev = toy.Run(1, "predict" + run + " data.test=");
  INFO(of_dev.output);
  REQUIRE(of_dev.exit_code == 0);
  CHECK(CountOf(ReadTestFile(toy.File("run/predictions.tsv")), "\n") == 41);
  CHECK_THAT(toy.Run(1, "predict" + run + " data.test=[]").output,
             Catch::Contains("dev: 40 texts predicted"));
  std::filesystem::remove(toy.File("new.tsv"));
  CHECK(toy.Run(1, "eval" + run).exit_code == 3);
  CHECK(toy.Run(1, "eval" + run + " data.test=").exit_code == 0);
  // Other pieces than the weights have learned.
  CheckFailed(toy.Run(1, "predict" + run + " data.lower_case=false"), 2,
              {"data.lower_case is the checkpoint's, true in "});
}

TEST_CASE("the test set is predicted where the dev set is gone") {
  const ToyTexts toy;
  REQUIRE(toy.Train("trainer.max_steps=2 data.test=" + toy.File("new.tsv")).exit_code == 0);
  std::filesystem::remove(toy.File("dev.tsv"));
  const Outcome predicted = toy.Run(1, "predict --run_dir=" + toy.File("run"));
  INFO(predicted.output);
  CHECK(predicted.exit_code == 0);
  CheckFailed(toy.Run(1, "eval --run_dir=" + toy.File("run")), 3, {"dev.tsv"});
}

TEST_CASE("ranks train what one process trains") {
  const ToyTexts toy;
  const std::string few = "trainer.max_steps=12 ";
  const Outcome one = toy.Train(few);
  INFO(one.output);
  REQUIRE(one.exit_code == 0);
  const std::string small_batches = "trainer.micro_batch_tokens=100 ";
  for (const auto& [ranks, more] : {std::pair{2, ""}, {4, ""}, {2, small_batches.c_str()}}) {
    const Outcome several = toy.Train(few + more + "run.run_dir=" + toy.File("run-ranks"), ranks);
    INFO(several.output);
    CHECK(several.exit_code == 0);
    CHECK(std::stod(ValueOf(several.output, "loss")) ==
          Approx(std::stod(ValueOf(one.output, "loss"))).margin(2e-4));
    std::filesystem::remove_all(toy.File("run-ranks"));
  }
}

TEST_CASE("the average of the weights begins at the pretrained ones on all ranks") {
  const ToyTexts toy;
  REQUIRE(toy.Train().exit_code == 0);
  // Updates that change nothing: what is evaluated is what the average began with.
  const std::string still =
      "optimizer.learning_rate=1e-12 optimizer.warmup_steps=0 "
      "trainer.max_steps=1 model.dropout=0 model.pretrained=" +
      toy.File("run/ckpt/last/model.safetensors");
  const Outcome plain = toy.Train(still + " run.run_dir=" + toy.File("plain"));
  INFO(plain.output);
  REQUIRE(plain.exit_code == 0);
  const double loss = std::stod(ValueOf(plain.output, "loss"));
  for (const int ranks : {1, 2}) {
    const std::string sharded = ranks == 2 ? " trainer.shard_optimizer=true" : "";
    const Outcome averaged = toy.Train(still + sharded + " optimizer.ema_decay=0.9 run.run_dir=" +
                                           toy.File("averaged-" + std::to_string(ranks)),
                                       ranks);
    INFO(averaged.output);
    REQUIRE(averaged.exit_code == 0);
    CHECK(std::stod(ValueOf(averaged.output, "loss")) == Approx(loss).margin(2e-4));
  }
}

TEST_CASE("adapters resume bit for bit, and leave the weights they change as they were") {
  const ToyTexts toy;
  REQUIRE(toy.Train("trainer.max_steps=5").exit_code == 0);
  std::filesystem::copy(toy.File("run/ckpt/last/"), toy.File("weights"));
  const auto adapt = [&](const std::string& run, int updates, int ranks, const std::string& more) {
    const Outcome outcome = toy.Train(
        "data.vocabulary= optimizer.schedule=constant model.lora.rank=2 "
        "optimizer.ema_decay=0.9 model.pretrained=" +
            toy.File("weights") + " run.run_dir=" + toy.File(run) +
            " trainer.max_steps=" + std::to_string(updates) + " " + more,
        ranks);
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    return ReadTestFile(toy.File(run + "/ckpt/last/model.safetensors"));
  };
  const std::string bf16 = "trainer.precision=bf16";
  for (const std::string& more : {std::string(), bf16}) {
    INFO(more);
    const std::string name = more.empty() ? "float" : "bf16";
    const std::string whole = adapt(name + "-whole", 7, 2, more);
    // With shards of the optimizer, and on from there without.
    CHECK(adapt(name + "-shards", 3, 2, more + " trainer.shard_optimizer=true") != whole);
    CHECK(adapt(name + "-shards", 7, 2, more) == whole);
  }
  const auto tensor = [&](const std::string& folder, const std::string& name) {
    const SafetensorsFile file = *SafetensorsFile::Open(toy.File(folder) + "/model.safetensors");
    const NamedTensor* const found = file.Find(name);
    REQUIRE(found != nullptr);
    return std::vector<std::byte>(found->data.begin(), found->data.end());
  };
  const std::string query = "bert.encoder.layer.0.attention.self.query.";
  CHECK(tensor("float-whole/ckpt/last", query + "weight") == tensor("weights", query + "weight"));
  const std::vector<std::byte> b = tensor("float-whole/ckpt/last", query + "lora_B.weight");
  CHECK(std::any_of(b.begin(), b.end(), [](std::byte value) { return value != std::byte{0}; }));
  const Outcome evaluated = toy.Run(1, "eval --run_dir=" + toy.File("float-whole"));
  INFO(evaluated.output);
  CHECK(evaluated.exit_code == 0);

  // Another alpha is another model; and the factors alone are none.
  const std::string go_on =
      "data.vocabulary= optimizer.schedule=constant optimizer.ema_decay=0.9 "
      "model.pretrained=" +
      toy.File("weights") + " run.run_dir=" + toy.File("float-whole") +
      " trainer.max_steps=9 model.lora.rank=2 ";
  CheckFailed(toy.Train(go_on + "model.lora.alpha=4"), 2, {"lora.alpha 16", "lora.alpha 4"});
  CheckFailed(toy.Train("data.vocabulary= trainer.max_steps=1 run.run_dir=" + toy.File("other") +
                        " model.pretrained=" + toy.File("float-whole/ckpt/last")),
              7, {"lora_A.weight", "not added to the weights", "dtrain export-hf"});
}

TEST_CASE("adapters that would change nothing are refused") {
  const ToyTexts toy;
  CheckFailed(toy.Train("model.lora.rank=2"), 2, {"model.lora", "set model.pretrained"});
  CheckFailed(toy.Train("model.lora.targets=query"), 2, {"model.lora.targets", "rank is 0"});
  REQUIRE(toy.Train("trainer.max_steps=1").exit_code == 0);
  CheckFailed(toy.Train("model.lora.rank=2 model.lora.targets=qury data.vocabulary= "
                        "model.pretrained=" +
                        toy.File("run/ckpt/last") + " run.run_dir=" + toy.File("other")),
              2,
              {"no linear layer of this model is called qury",
               "attention.output.dense, attention.self.key, attention.self.query"});
}

TEST_CASE("a run goes on where the weights it began with are gone") {
  const ToyTexts toy;
  REQUIRE(toy.Train("trainer.max_steps=1").exit_code == 0);
  std::filesystem::copy(toy.File("run/ckpt/last/"), toy.File("weights"));
  const std::string from =
      "data.vocabulary= optimizer.schedule=constant model.pretrained=" + toy.File("weights") +
      " run.run_dir=" + toy.File("stopped") + " ";
  const Outcome whole = toy.Train(from + "trainer.max_steps=9 run.run_dir=" + toy.File("whole"));
  INFO(whole.output);
  REQUIRE(whole.exit_code == 0);
  REQUIRE(toy.Train(from + "trainer.max_steps=3").exit_code == 0);
  std::filesystem::remove_all(toy.File("weights"));
  REQUIRE(toy.Train(from + "trainer.max_steps=6").exit_code == 0);
  // The configuration that it wrote names its own files, and with that it goes on too.
  const Outcome last = toy.Run(1, "train --config=" + toy.File("stopped/config.textproto") +
                                      " trainer.max_steps=9 run.run_dir=" + toy.File("stopped"));
  INFO(last.output);
  CHECK(last.exit_code == 0);
  CHECK(ReadTestFile(toy.File("stopped/ckpt/last/model.safetensors")) ==
        ReadTestFile(toy.File("whole/ckpt/last/model.safetensors")));
  const Outcome further = toy.Train("data.vocabulary= model.pretrained=" + toy.File("weights") +
                                        " --resume=" + toy.File("whole") +
                                        " trainer.max_steps=12 run.run_dir=" + toy.File("further"),
                                    2);
  INFO(further.output);
  CHECK(further.exit_code == 0);
  CheckFailed(toy.Train(from + "trainer.max_steps=3 run.run_dir=" + toy.File("new")), 2,
              {toy.File("weights")});
}

TEST_CASE("a configuration whose sizes pretrained weights overrule evaluates what it trained") {
  const ToyTexts toy;
  REQUIRE(toy.Train("trainer.max_steps=1").exit_code == 0);
  const std::string layers = "model.num_layers=3 ";
  const Outcome tuned =
      toy.Train(layers + "trainer.max_steps=1 data.vocabulary= model.pretrained=" +
                toy.File("run/ckpt/last") + " run.run_dir=" + toy.File("tuned"));
  INFO(tuned.output);
  REQUIRE(tuned.exit_code == 0);
  const Outcome evaluated = toy.Run(1, "eval " + layers + "--run_dir=" + toy.File("tuned"));
  INFO(evaluated.output);
  CHECK(evaluated.exit_code == 0);
  CHECK_THAT(evaluated.output,
             Catch::Contains("dev (40 texts)") &&
                 Catch::Contains("model.num_layers is 1 by the pretrained weights"));
}

TEST_CASE("several seeds become several runs and one table") {
  const ToyTexts toy;
  const Outcome outcome = toy.Train("trainer.seeds=3,4 trainer.max_steps=5");
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.output, Catch::Contains("2 seeds, last evaluations\n"));
  CHECK_THAT(outcome.output, Catch::Contains(" +- "));
  CHECK(outcome.output.find("texts are few") == std::string::npos);
  CHECK_THAT(ReadTestFile(toy.File("run/seeds.json")), Catch::Contains("\"deviation\""));
  for (const char* seed : {"run/seed-3", "run/seed-4"}) {
    CHECK_THAT(ReadTestFile(toy.File(seed) + "/config.textproto"), Catch::Contains("seeds: "));
    CHECK(std::filesystem::exists(toy.File(seed) + "/ckpt/last/model.safetensors"));
  }
  CheckFailed(toy.Train("trainer.seeds=3 trainer.max_steps=5"), 2, {"holds runs of several seeds"});
  // A table that nobody gets is told.
  const Outcome lost = RunCommand(
      "bash -c '" DTRAIN_TEST_PROGRAM " train --config=" + toy.File("run/seed-3/config.textproto") +
      " trainer.seeds=3,4 run.run_dir=" + toy.File("run") + " >/dev/full'");
  INFO(lost.output);
  CHECK(lost.exit_code == 7);
  CHECK_THAT(lost.output, Catch::Contains("standard output"));
  REQUIRE(toy.Train("trainer.max_steps=1 run.run_dir=" + toy.File("one")).exit_code == 0);
  CheckFailed(toy.Train("trainer.seeds=3,4 run.run_dir=" + toy.File("one"), 2), 2,
              {toy.File("one") + ": holds a run of one seed", "choose another --run_dir"});
  CHECK_FALSE(std::filesystem::exists(toy.File("one/seed-3")));
  CHECK(ReadTestFile(toy.File("run/seed-3/ckpt/last/model.safetensors")) !=
        ReadTestFile(toy.File("run/seed-4/ckpt/last/model.safetensors")));
}

TEST_CASE(
    "a trained classifier takes texts without weights, says what it leaves out, and where to") {
  const ToyTexts toy;
  std::string rows = ReadTestFile(toy.File("train.tsv"));
  rows.replace(0, rows.find('\n'), "text\tlabel\tw");
  for (size_t at = rows.find('\n', rows.find('\n') + 1); at != std::string::npos;
       at = rows.find('\n', at + 3)) {
    rows.insert(at, "\t2");
  }
  WriteTestFile(toy.File("weighted.tsv"), rows + "broken\n");
  const Outcome trained =
      toy.Train("trainer.max_steps=3 data.weight=w data.bad_rows=skip data.train=" +
                toy.File("weighted.tsv"));
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  CHECK_THAT(trained.output, Catch::Contains("train: 1 of 201 rows are left out, among them: "));

  const std::string predict = "predict --run_dir=" + toy.File("run") + " data.test=";
  CHECK(toy.Run(1, predict + toy.File("new.tsv")).exit_code == 0);
  WriteTestFile(toy.File("broken.tsv"), "id\ttext\n1\ta film\n2\n");
  CheckFailed(toy.Run(1, predict + toy.File("broken.tsv") + " data.id=id"), 3, {"broken.tsv:3"});
  CheckFailed(toy.Run(1, predict + toy.File("new.tsv") + " data.max_length=64"), 2,
              {"exceeds the 32 positions"});
  WriteTestFile(toy.File("other.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nx\n");
  CheckFailed(
      toy.Run(1, predict + toy.File("new.tsv") + " data.vocabulary=" + toy.File("other.txt")), 2,
      {"is not the vocabulary"});
  for (const std::string name : {"num_heads=4", "activation=relu", "num_layers=2"}) {
    CheckFailed(toy.Run(1, predict + toy.File("new.tsv") + " model." + name), 2,
                {"model." + name.substr(0, name.find('=')) + " is the checkpoint's"});
  }
  CHECK(toy.Run(1, predict + toy.File("new.tsv") + " model.num_heads=2").exit_code == 0);
  CheckFailed(toy.Run(1, predict + toy.File("new.tsv") + " predict.output=/proc/none/x.tsv"), 7,
              {"/proc/none"});
  CheckFailed(toy.Run(1, predict + toy.File("new.tsv") + " predict.output=" + toy.File("")), 2,
              {"is a folder"});
  CheckFailed(toy.Run(1, "predict --run_dir=" + toy.File("run") +
                             " data.glue=sst-2 data.glue_dir=" + toy.File("") +
                             " predict.output=" + toy.File("train.tsv")),
              2, {"predict.output", "train.tsv"});
  CHECK_THAT(
      toy.Run(1, "eval --run_dir=" + toy.File("run") + " data.test=" + toy.File("new.tsv")).output,
      Catch::Contains("test (2 texts)  no labels"));
  const std::string evaluate = "eval --run_dir=" + toy.File("run") + " data.dev= data.test=";
  CheckFailed(toy.Run(1, evaluate + toy.File("new.tsv") + " data.label=lable"), 3,
              {"no text of test has its labels in \"lable\""});
  WriteTestFile(toy.File("unknown.tsv"), "text\tlabel\ngood film\tgreat\n");
  CheckFailed(toy.Run(1, evaluate + toy.File("unknown.tsv")), 3,
              {"\"great\" is not one of the labels: blame, praise, which are the checkpoint's; "
               "data.label= predicts without the texts' own"});
  WriteTestFile(toy.File("some.tsv"), "text\tlabel\ngood film\tpraise\nbad film\t\n");
  CHECK_THAT(toy.Run(1, evaluate + toy.File("some.tsv")).output,
             Catch::Contains("test (2 texts)  with labels 1  loss"));

  WriteTestFile(toy.File("weighted.tsv"), rows);
  CheckFailed(toy.Train("trainer.max_steps=6 data.weight=w data.train=" + toy.File("weighted.tsv")),
              7, {"was trained on other data"});
}

TEST_CASE(
    "classes of held-out rows are known, and a label that dev lacks does not hide the others") {
  const ToyTexts toy;
  std::string rows = ReadTestFile(toy.File("train.tsv"));
  for (int i = 0; i < 40; ++i) rows += "a film\trare" + std::to_string(i) + "\n";
  WriteTestFile(toy.File("rare.tsv"), rows);
  const Outcome rare =
      toy.Train("trainer.max_steps=1 data.dev= data.train=" + toy.File("rare.tsv"));
  INFO(rare.output);
  CHECK(rare.exit_code == 0);

  std::string labels = "text\tx\ty\n";
  for (int i = 0; i < 60; ++i) {
    labels += i % 2 == 0 ? "good film\t1\t0\n" : "bad film\t0\t0\n";
  }
  WriteTestFile(toy.File("multi.tsv"), labels);
  const std::string both = " data.labels=multi data.label=x,y data.train=" + toy.File("multi.tsv") +
                           " data.dev=" + toy.File("multi.tsv") +
                           " run.run_dir=" + toy.File("multi");
  const Outcome multi = toy.Train(both);
  INFO(multi.output);
  CHECK(multi.exit_code == 0);
  CHECK(ValueOf(multi.output, "auc") == "1.0000");
  CHECK(std::filesystem::exists(toy.File("multi/ckpt/best-auc")));
  const std::string use = " --run_dir=" + toy.File("multi") + " data.test=" + toy.File("new.tsv");
  REQUIRE(toy.Run(1, "predict" + use + " data.label=p,q").exit_code == 0);
  CHECK_THAT(ReadTestFile(toy.File("multi/predictions.tsv")),
             Catch::StartsWith("id\tlabel\tp_x\tp_y\n"));
  CheckFailed(toy.Run(1, "predict" + use + " data.label="), 2,
              {"data.label= is for classes and values"});
  const Outcome undefined =
      toy.Train(both +
                "2 trainer.best_metric=auc_y trainer.early_stop.metric=auc_y trainer.max_epochs=0 "
                "trainer.early_stop.patience=2 optimizer.schedule=constant");
  INFO(undefined.output);
  CHECK(undefined.exit_code == 0);
  CHECK(CountOf(undefined.output, "auc_y is undefined on the dev set") == 1);
  const Outcome stalled =
      toy.Train(both +
                "3 trainer.best_metric=auc_x trainer.early_stop.metric=auc_y trainer.max_epochs=0 "
                "trainer.early_stop.patience=2 optimizer.schedule=constant");
  INFO(stalled.output);
  CHECK(stalled.exit_code == 0);
  CHECK(CountOf(stalled.output, "auc_y is undefined on the dev set") == 1);
  CHECK_THAT(stalled.output, Catch::Contains("early_stop.patience of them end the run"));
}

TEST_CASE("what ended a run is said by the key that goes on") {
  const ToyTexts toy;
  const std::string spaced = " \"run.run_dir=" + toy.File("a run") + "\"";
  const Outcome trained = toy.Train("trainer.max_epochs=1" + spaced);
  INFO(trained.output);
  CHECK(trained.exit_code == 0);
  CHECK_THAT(trained.output,
             Catch::Contains("done (max_epochs): 10 updates") &&
                 Catch::Contains("tensorboard --logdir '" + toy.File("a run/tb") + "'\n") &&
                 Catch::Contains("--run_dir '" + toy.File("a run") + "'\n"));
  CHECK_THAT(toy.Train("trainer.max_epochs=1" + spaced).output,
             Catch::Contains("raise its limit (trainer.max_epochs)"));
  const std::string stalls =
      " trainer.early_stop.patience=1 trainer.early_stop.min_delta=9 trainer.eval_every=1u";
  CHECK_THAT(toy.Train(stalls).output, Catch::Contains("done (early stop): 2 updates"));
  CHECK_THAT(toy.Train(stalls).output,
             Catch::Contains("raise its limit (trainer.early_stop.patience)"));
}

TEST_CASE("a batch of another size changes the updates of a run, not its epochs") {
  const ToyTexts toy;
  REQUIRE(toy.Train("trainer.max_epochs=2").exit_code == 0);
  const Outcome doubled = toy.Train("trainer.max_epochs=4 trainer.batch_size=40");
  INFO(doubled.output);
  CHECK(doubled.exit_code == 0);
  CHECK_THAT(doubled.output, Catch::Contains("an epoch has 5 updates now, 10 before") &&
                                 Catch::Contains("done (max_epochs): 30 updates, 800 texts"));
}

TEST_CASE("epochs of other data are refused where a run goes on from a checkpoint") {
  const ToyTexts toy;
  REQUIRE(toy.Train("trainer.max_epochs=1").exit_code == 0);
  toy.WriteRows("other.tsv", 400, 5);
  const std::string other = " --resume=" + toy.File("run") +
                            " data.train=" + toy.File("other.tsv") +
                            " run.run_dir=" + toy.File("other");
  for (const char* epochs : {"trainer.max_epochs=1", "trainer.max_epochs=3"}) {
    CheckFailed(toy.Train(epochs + other), 2,
                {"trainer.max_epochs counts from that run's first update",
                 "model.pretrained=FOLDER", "trainer.max_steps=N, of which 10 are done"});
  }
  const Outcome further = toy.Train("trainer.max_epochs=0 trainer.max_steps=15" + other);
  INFO(further.output);
  CHECK(further.exit_code == 0);
  CHECK_THAT(further.output, Catch::Contains("done (max_steps): 15 updates"));
  // The same data has no first epoch to begin.
  CheckFailed(toy.Train("trainer.max_epochs=1 --resume=" + toy.File("run") +
                        " run.run_dir=" + toy.File("same")),
              2, {"trainer.max_epochs gives 1 epochs, of which the checkpoint has 1"});
}

TEST_CASE("texts without a header and without labels are predicted") {
  const ToyTexts toy;
  WriteTestFile(toy.File("train.tsv"),
                "praise\tgood film\nblame\tbad film\npraise\ta good b\nblame\tbad b\n");
  const Outcome trained = toy.Train(
      "data.header=false data.text=1 data.label=0 data.dev= data.hold_out=0 trainer.max_steps=2");
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  WriteTestFile(toy.File("new.tsv"), "a good film\na bad film\n");
  const std::string texts =
      " --run_dir=" + toy.File("run") + " data.text=0 data.label= data.test=" + toy.File("new.tsv");
  const Outcome predicted = toy.Run(2, "predict" + texts);
  INFO(predicted.output);
  CHECK(predicted.exit_code == 0);
  CHECK(CountOf(ReadTestFile(toy.File("run/predictions.tsv")), "\n") == 3);
  CHECK_THAT(toy.Run(1, "eval" + texts).output, Catch::Contains("(2 texts)  no labels"));
  CheckFailed(toy.Run(1, "predict" + texts + " data.labels=multi"), 2,
              {"of the kind classes, those of the texts are multi by data.labels"});
  CheckFailed(toy.Run(2, "predict" + texts + " predict.output=" + toy.File("new.tsv")), 2,
              {"predict.output: ", "new.tsv is also an input"});
  CHECK(ReadTestFile(toy.File("new.tsv")) == "a good film\na bad film\n");
}

TEST_CASE("a run says how many texts it holds out, with their labels") {
  const ToyTexts toy;
  const Outcome trained = toy.Train("data.dev= data.hold_out=0.2 trainer.max_steps=2");
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  CHECK_THAT(trained.output, Catch::Contains("train: 160 texts (blame ") &&
                                 Catch::Matches("(.|\n)*dev: 40 texts \\(blame [0-9]+, praise "
                                                "[0-9]+\\), held out of data.train\n(.|\n)*"));
}

TEST_CASE("predictions have the texts beside them where that is wished") {
  const ToyTexts toy;
  REQUIRE(toy.Train("trainer.max_steps=2").exit_code == 0);
  WriteTestFile(toy.File("new.tsv"), "text\na good\\film\nbad film\n");
  const std::string predict =
      "predict --run_dir=" + toy.File("run") + " predict.text=true data.test=";
  const Outcome predicted = toy.Run(2, predict + toy.File("new.tsv"));
  INFO(predicted.output);
  REQUIRE(predicted.exit_code == 0);
  const std::string predictions = ReadTestFile(toy.File("run/predictions.tsv"));
  CHECK_THAT(predictions, Catch::StartsWith("id\tlabel\tp_blame\tp_praise\ttext\n1\t") &&
                              Catch::Contains("\ta good\\\\film\n2\t") &&
                              Catch::EndsWith("\tbad film\n"));
  const Outcome answered =
      RunCommand("printf 'bad film\\n' | " DTRAIN_TEST_PROGRAM " " + predict + "-");
  CHECK_THAT(answered.output,
             Catch::Contains("p_praise\ttext\n1\t") && Catch::EndsWith("\tbad film\n"));
}

TEST_CASE("classes are balanced by their texts, or weighed by hand, not both") {
  const ToyTexts toy;
  CHECK(toy.Train("trainer.balance_labels=true trainer.max_steps=2").exit_code == 0);
  CheckFailed(toy.Train("trainer.balance_labels=true trainer.label_weights=1,2 --resume=never "
                        "--run_dir=" +
                        toy.File("other")),
              2, {"trainer.label_weights and trainer.balance_labels both weigh the classes"});
}

TEST_CASE("a squared error has no perplexity") {
  const ToyTexts toy;
  WriteTestFile(toy.File("train.tsv"), "text\tlabel\ngood film\t2.5\nbad film\t-1\n");
  const std::string set = "trainer.max_steps=3 trainer.log_every=1 data.dev= data.hold_out=0 ";
  const Outcome values = toy.Train(set + "data.labels=value");
  INFO(values.output);
  CHECK(values.exit_code == 0);
  CHECK_THAT(values.output, Catch::Contains("loss "));
  CHECK(CountOf(values.output, "ppl ") == 0);
  CheckFailed(toy.Train("data.dev= data.hold_out=0.001 run.run_dir=" + toy.File("held")), 3,
              {"train.tsv: data.hold_out leaves one side without rows"});
  const Outcome classes = toy.Train(set + "run.run_dir=" + toy.File("classes"));
  CHECK(CountOf(classes.output, "ppl ") > 0);
}

TEST_CASE("a vocabulary of another case than the texts get is worth a warning") {
  const ToyTexts toy;
  const Outcome lower = toy.Train("trainer.max_steps=1 data.lower_case=false");
  INFO(lower.output);
  CHECK(lower.exit_code == 0);
  CHECK_THAT(lower.output, Catch::Contains("no piece has a capital"));
  WriteTestFile(toy.File("cased.txt"),
                "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\na\nfilm\nb\nGood\n");
  const Outcome cased = toy.Train("trainer.max_steps=1 data.vocabulary=" + toy.File("cased.txt") +
                                  " run.run_dir=" + toy.File("cased"));
  INFO(cased.output);
  CHECK(cased.exit_code == 0);
  CHECK_THAT(cased.output, Catch::Contains("1 of 11 pieces have capitals"));
}

TEST_CASE("pairs need a model that tells two texts apart") {
  const ToyTexts toy;
  WriteTestFile(toy.File("config.json"),
                R"({"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,)"
                R"("intermediate_size": 8, "type_vocab_size": 1})");
  const std::string weights = "model.pretrained=" + toy.File("model.safetensors") + " ";
  CheckFailed(toy.Train(weights + "data.text_pair=other"), 2,
              {toy.File("model.safetensors") + " supports", "type_vocab_size 1", "data.text_pair"});
  for (const std::string name : {"train", "dev"}) {
    WriteTestFile(toy.File(name + ".tsv"),
                  "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta film\tgood\n"
                  "0\t3\t4\ta film\tbad\n");
  }
  const std::string glue = weights + "data.train= data.dev= data.glue_dir=" + toy.File("") + " ";
  CheckFailed(toy.Train(glue + "data.glue=mrpc"), 2,
              {toy.File("model.safetensors") + " supports", "type_vocab_size 1", "data.glue=mrpc"});
  // One text is one segment: only the weights are missing.
  for (const std::string name : {"train", "dev"}) {
    WriteTestFile(toy.File(name + ".tsv"), "sentence\tlabel\na film\t1\nbad\t0\n");
  }
  CheckFailed(toy.Train(glue + "data.glue=sst-2"), 7, {toy.File("model.safetensors")});
}

TEST_CASE("a training set of one class is worth a warning") {
  const ToyTexts toy;
  WriteTestFile(toy.File("one.tsv"), "text\tlabel\na film\tblame\nb\tblame\n");
  const Outcome one = toy.Train("trainer.max_steps=1 data.train=" + toy.File("one.tsv") +
                                " data.dev=" + toy.File("one.tsv"));
  INFO(one.output);
  CHECK_THAT(one.output, Catch::Contains("all rows have the label \"blame\""));
  CheckFailed(toy.Train("data.label_names=blame,praise,blame"), 2,
              {"two labels are named \"blame\""});
}

TEST_CASE(
    "a preset's labels, dev and test sets that do not fit one's own table are named at once") {
  const ToyTexts toy;
  std::filesystem::create_directory(toy.File("preset"));
  WriteTestFile(toy.File("preset/dev.tsv"), "sentence\tclass\na\tyes\n");
  const std::string preset =
      "data.dev=" + toy.File("preset/dev.tsv") + " data.test=" + toy.File("preset/dev.tsv");
  const std::string others = "left out with data.dev= data.test=";
  CheckFailed(toy.Train(preset + " data.label_names=no,yes"), 3,
              {"set data.label_names= to take them from the file", others});
  CheckFailed(toy.Train(preset), 3, {"preset/dev.tsv: no column \"text\"", others});
}

TEST_CASE("bert_classify says what is wrong, once") {
  const ToyTexts toy;
  CheckFailed(toy.Run(1, ""), 2, {"which command? bert_classify train"});
  CheckFailed(toy.Run(1, "tain"), 2, {"tain: unknown command", "did you mean", "train"});
  CheckFailed(toy.Run(1, "eval"), 2, {"no model is given"});
  CheckFailed(toy.Run(1, "eval --run_dir=/nowhere"), 2, {"/nowhere: no such run"});
  CheckFailed(toy.Train("data.label=stars"), 3, {"train.tsv", "stars"});
  const std::string status = ReadTestFile(toy.File("run/STATUS"));
  CHECK_THAT(status, Catch::StartsWith("state failed\nexit_code 3\n"));
  CHECK_THAT(status, Catch::Contains("\nmessage ") && Catch::Contains("stars"));
  CheckFailed(toy.Train("data.vocabulary=/nowhere/vocab.txt", 2), 3, {"/nowhere/vocab.txt"});
  CheckFailed(toy.Train("trainer.label_weights=1,2,3"), 2, {"3 weights for 2 labels"});
  CheckFailed(toy.Train("data.dev= data.hold_out=0 trainer.early_stop.patience=2"), 2,
              {"trainer.early_stop.patience needs evaluations: set data.dev"});
  CheckFailed(toy.Train("data.dev= data.hold_out=0 trainer.best_metric=accuracy"), 2,
              {"trainer.best_metric needs evaluations: set data.dev"});
  CheckFailed(toy.Train("trainer.best_metric=pearson"), 2,
              {"trainer.best_metric is \"pearson\"", "loss, accuracy, f1, matthews, auc"});
  const Outcome help = toy.Run(1, "--help");
  CHECK(help.exit_code == 0);
  CHECK_THAT(help.output, Catch::Contains("predict   "));
  CHECK_THAT(toy.Run(1, "--help_config=optimizer.learning_rate").output,
             Catch::Contains("optimizer.learning_rate=5e-05"));
}

}  // namespace
}  // namespace dtrain
