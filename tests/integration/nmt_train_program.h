// nmt_train_program.h - starts the real nmt_train on a toy corpus, alone and under mpirun.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_INTEGRATION_NMT_TRAIN_PROGRAM_H_
#define DTRAIN_TESTS_INTEGRATION_NMT_TRAIN_PROGRAM_H_

#include <filesystem>
#include <sstream>
#include <string>

#include "dtrain/base/random.h"
#include "integration/program.h"

namespace dtrain {

// A corpus of words and the same words spelled backwards, and command lines for it.
class ToyProgram {
 public:
  ToyProgram() {
    RandomStream random({.seed = 5});
    for (int i = 0; i < 300; ++i) {
      std::string word(3 + random.NextBelow(10), ' ');
      for (char& c : word) c = static_cast<char>('a' + random.NextBelow(8));
      source_ += word + "\n";
      target_ += std::string(word.rbegin(), word.rend()) + "\n";
    }
    WriteTestFile(File("train.src"), source_);
    WriteTestFile(File("train.tgt"), target_);
    WriteTestFile(File("dev.tsv"), "abcdefgh\thgfedcba\nhhggffee\teeffgghh\n");
  }

  std::string File(const std::string& name) const { return folder_.File(name); }
  std::string run_dir() const { return File("run"); }
  const std::string& source() const { return source_; }
  const std::string& target() const { return target_; }

  // Arguments of a run of 20 updates into run_dir(); later ones override earlier ones.
  std::string Arguments(const std::string& more = "") const {
    return "model.encoder_layers=1 model.decoder_layers=1 model.hidden_size=32 model.ffn_size=32 "
           "model.num_heads=2 model.max_positions=64 optimizer.warmup_steps=50 "
           "trainer.tokens_per_batch=100 trainer.beam_size=1 trainer.eval_every= "
           "trainer.checkpoint_every=10u trainer.max_steps=20 data.hold_out_test=0 "
           "data.vocab_size=40 data.max_length=60 run.progress=none data.dev_tsv=" +
           File("dev.tsv") + " run.run_dir=" + run_dir() + " " + more;
  }
  std::string Corpus() const {
    return " data.train_source=" + File("train.src") + " data.train_target=" + File("train.tgt");
  }
  std::string Command(int ranks, const std::string& more = "") const {
    return CommandOn(ranks, DTRAIN_TEST_PROGRAM " " + Arguments(more));
  }
  Outcome Run(int ranks, const std::string& more = "") const {
    return RunCommand(Command(ranks, more));
  }

  std::string CheckpointFile(int step, const std::string& name = "model.safetensors") const {
    std::ostringstream path;
    path << run_dir() << "/ckpt/step-" << std::string(8 - std::to_string(step).size(), '0') << step
         << "/" << name;
    return path.str();
  }
  bool HasCheckpoint(int step) const {
    return std::filesystem::exists(CheckpointFile(step, "COMPLETE"));
  }
  std::string Log() const { return ReadTestFile(run_dir() + "/logs/rank-00000.log"); }
  void RemoveRun() const { std::filesystem::remove_all(run_dir()); }

 private:
  TemporaryFolder folder_;
  std::string source_, target_;
};

}  // namespace dtrain

#endif  // DTRAIN_TESTS_INTEGRATION_NMT_TRAIN_PROGRAM_H_
