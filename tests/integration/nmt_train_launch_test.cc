// nmt_train_launch_test.cc - ranks that differ, and runs that are there already.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/cpu_isa.h"
#include "integration/nmt_train_program.h"

namespace dtrain {
namespace {

TEST_CASE("a complete run that is started again trains nothing and says how to go on") {
  const ToyProgram toy;
  REQUIRE(toy.Run(2, toy.Corpus()).exit_code == 0);
  const std::string weights = ReadTestFile(toy.CheckpointFile(20));
  const std::string evaluations = ReadTestFile(toy.run_dir() + "/metrics/eval.jsonl");
  CHECK(CountOf(evaluations, "\"step\":20,") == 1);
  const Outcome again = toy.Run(2, toy.Corpus());
  INFO(again.output);
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.output, Catch::Contains("this run was complete already") &&
                               Catch::Contains("(trainer.max_steps)") &&
                               Catch::Contains("another run directory"));
  CHECK(ReadTestFile(toy.CheckpointFile(20)) == weights);
  CHECK(ReadTestFile(toy.run_dir() + "/metrics/eval.jsonl") == evaluations);
  // And it does go on.
  CHECK(toy.Run(2, toy.Corpus() + " trainer.max_steps=25").exit_code == 0);
  CHECK(toy.HasCheckpoint(25));
}

TEST_CASE("settings that differ from those the run had are told when it goes on") {
  const ToyProgram toy;
  const std::string arguments = toy.Corpus() + " trainer.checkpoint_minutes=7 run.threads=1 ";
  REQUIRE(toy.Run(2, arguments).exit_code == 0);
  const Outcome same = toy.Run(2, arguments + "trainer.max_steps=22 trainer.log_every=3");
  INFO(same.output);
  CHECK(same.exit_code == 0);
  CHECK(same.output.find("settings differ") == std::string::npos);
  const std::string changes = "optimizer.learning_rate: 0.001 -> 0.5, trainer.beam_alpha: ";
  const Outcome other = toy.Run(
      2, arguments + "trainer.max_steps=24 optimizer.learning_rate=0.5 trainer.beam_alpha=2");
  INFO(other.output);
  CHECK(other.exit_code == 0);
  const std::string line = "settings differ from here on: " + changes;
  CHECK(CountOf(toy.Log(), "resume @22: " + line) == 1);
  CHECK(CountOf(ReadTestFile(toy.run_dir() + "/metrics/events.jsonl"), line) == 1);
  const Outcome many =
      toy.Run(2, arguments +
                     "trainer.max_steps=25 optimizer.beta1=0.8 optimizer.beta2=0.9 "
                     "optimizer.epsilon=1e-6 optimizer.clip_norm=2 optimizer.weight_decay=0.1 "
                     "trainer.label_smoothing=0.2 trainer.seed=4 trainer.beam_extra_length=3 "
                     "trainer.eval_samples=1 trainer.eval_max_sentences=1 model.dropout=0.3");
  INFO(many.output);
  CHECK(many.exit_code == 0);
  CHECK_THAT(toy.Log(),
             Catch::Contains("model.dropout: 0.1 -> 0.3, ") && Catch::Contains(", and 3 more"));
}

// Another command for each of two ranks. By the shell, because the mpirun of Open MPI 5.0.7 crashes
// on the colon that separates commands.
std::string OnTwoRanks(const std::string& first, const std::string& second) {
  return std::string(DTRAIN_TEST_MPIRUN) + " -n 2 sh -c '[ $" + launcher::kRankVariable +
         " = 0 ] && exec " + first + "; exec " + second + "'";
}

TEST_CASE("ranks on unlike processors compute alike") {
  const ToyProgram toy;
  const std::string arguments = toy.Corpus() + " trainer.replica_check_every=1";
  const Outcome outcome = RunCommand(OnTwoRanks(
      toy.Command(1, arguments), "env DTRAIN_CPU_ISA=generic " + toy.Command(1, arguments)));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  if (BestCpuIsa() == CpuIsa::kGeneric) return;
  CHECK_THAT(outcome.output,
             Catch::Contains("all compute with generic, the best that rank 1 (host"));
}

TEST_CASE("another configuration on one rank ends all ranks with exit code 2 and names the key") {
  const ToyProgram toy;
  const auto run = [&](const std::string& first, const std::string& second) {
    return RunCommand(OnTwoRanks(toy.Command(1, first), toy.Command(1, second)));
  };
  const std::string corpus = toy.Corpus();
  CheckFailed(run(corpus, corpus + " model.ffn_size=48"), 2,
              {"the ranks disagree on configuration", "rank 0 (host ", ": model.ffn_size: 32",
               "rank 1 (host ", ": model.ffn_size: 48"});
  CheckFailed(run(corpus, corpus + " optimizer.learning_rate=0.5"), 2,
              {": optimizer.learning_rate: 0.001", ": optimizer.learning_rate: 0.5"});
  // One with raw text, one without: found before either waits for the other.
  CheckFailed(run(corpus, "data.dev_tsv= data.prepared=" + toy.File("prepared")), 2,
              {"data.prepared: \"\""});
  CHECK_FALSE(std::filesystem::exists(toy.run_dir()));
  CHECK(CountProcesses(toy.run_dir()) == 0);
}

TEST_CASE("a run that is already there is refused with both possible commands") {
  const ToyProgram toy;
  REQUIRE(toy.Run(2, toy.Corpus()).exit_code == 0);
  const std::string weights = ReadTestFile(toy.CheckpointFile(20));
  const Outcome outcome = toy.Run(2, toy.Corpus() + " run.resume=never");
  CheckFailed(outcome, 2,
              {toy.run_dir() + ": a run is already there (checkpoints: 2)",
               "To continue it:", "To start anew in another folder:"});
  CHECK(ReadTestFile(toy.CheckpointFile(20)) == weights);
  // The commands are right: run them as they are printed.
  std::istringstream lines(outcome.output);
  std::vector<std::string> commands;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  mpirun -n 2 ")) continue;
    line = line.substr(0, line.find(" (see docs"));
    commands.push_back(DTRAIN_TEST_MPIRUN + line.substr(line.find(" -n 2 ")));
  }
  REQUIRE(commands.size() == 2);
  const Outcome continued = RunCommand(commands[0]);
  INFO(continued.output);
  CHECK(continued.exit_code == 0);
  CHECK_THAT(continued.output, Catch::Contains("this run was complete already"));
  const Outcome anew = RunCommand(commands[1]);
  INFO(anew.output);
  CHECK(anew.exit_code == 0);
  CHECK(ReadTestFile(toy.run_dir() + "-2/ckpt/step-00000020/model.safetensors") == weights);
}

}  // namespace
}  // namespace dtrain
