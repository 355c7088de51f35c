// nmt_train_checkpoint_test.cc - damaged and foreign checkpoints, full disks, repeated runs.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mount.h>

#include "integration/nmt_train_program.h"

namespace dtrain {
namespace {

// Changes a byte in the middle of a file.
void Damage(const std::string& path) {
  std::string content = ReadTestFile(path);
  REQUIRE(content.size() > 2000);
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 0x55);
  WriteTestFile(path, content);
}

TEST_CASE("a run begins with the weights, the shape and the vocabulary of another one") {
  const ToyProgram toy;
  REQUIRE(toy.Run(1, toy.Corpus()).exit_code == 0);
  const std::string trained = ReadTestFile(toy.CheckpointFile(20));
  // A rate so low that no weight changes, on other text and with another shape in the preset.
  WriteTestFile(toy.File("more.tsv"), "ab\tba\ncd\tdc\nabc\tcba\n");
  const std::string fine_tune =
      "model.hidden_size=16 data.train_tsv=" + toy.File("more.tsv") +
      " data.hold_out_dev=0 trainer.max_steps=1 optimizer.learning_rate=1e-30 "
      "optimizer.schedule=constant optimizer.warmup_steps=0 --init=" +
      toy.run_dir() + " --run_dir=" + toy.File("tuned");
  for (const int ranks : {1, 2}) {
    std::filesystem::remove_all(toy.File("tuned"));
    const Outcome tuned = toy.Run(ranks, fine_tune);
    INFO(tuned.output);
    REQUIRE(tuned.exit_code == 0);
    CHECK(ReadTestFile(toy.File("tuned/ckpt/step-00000001/model.safetensors")) == trained);
    CHECK(ReadTestFile(toy.File("tuned/ckpt/step-00000001/vocab.spm")) ==
          ReadTestFile(toy.CheckpointFile(20, "vocab.spm")));
  }
  CheckFailed(toy.Run(1, fine_tune + " data.vocabulary=" + toy.CheckpointFile(20, "vocab.spm")), 2,
              {"data.vocabulary is set, but the vocabulary is that of model.init"});
  // Later the other run may be gone.
  std::filesystem::rename(toy.run_dir(), toy.File("gone"));
  const Outcome again = toy.Run(1, fine_tune + " trainer.max_steps=2");
  INFO(again.output);
  CHECK(again.exit_code == 0);
  CheckFailed(toy.Run(1, fine_tune + " --run_dir=" + toy.File("new")), 2,
              {"run: no such run or checkpoint"});
}

TEST_CASE("a run directory of another shape is a wrong setting, not a broken disk") {
  const ToyProgram toy;
  REQUIRE(toy.Run(1, toy.Corpus()).exit_code == 0);
  CheckFailed(toy.Run(1, toy.Corpus() + " model.ffn_size=16 trainer.max_steps=30"), 2,
              {"run holds a run with other settings (model.ffn_size: 32 -> 16): choose another "
               "--run_dir, or set them back"});
}

TEST_CASE("a damaged newest checkpoint is skipped with a warning, no good one is an error") {
  const ToyProgram toy;
  REQUIRE(toy.Run(2, toy.Corpus()).exit_code == 0);
  const std::string weights = ReadTestFile(toy.CheckpointFile(20));
  Damage(toy.CheckpointFile(20));
  const Outcome outcome = toy.Run(2, toy.Corpus());
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.output,
             Catch::Contains("warning: rank 0: checkpoint step-00000020 is refused: ") &&
                 Catch::Contains("model.safetensors: damaged: tensor 'model."));
  CHECK_THAT(toy.Log(), Catch::Contains("going on from " + toy.run_dir() + "/ckpt/step-00000010"));
  CHECK(ReadTestFile(toy.CheckpointFile(20)) == weights);  // trained again, to the same bits
  CHECK(std::filesystem::exists(toy.run_dir() + "/ckpt/.refused-step-00000020/COMPLETE"));

  Damage(toy.CheckpointFile(20));
  Damage(toy.CheckpointFile(10, "optimizer.safetensors"));
  const std::string damaged = ReadTestFile(toy.CheckpointFile(20));
  CheckFailed(toy.Run(2, toy.Corpus()), 7,
              {"none of the 2 checkpoints is valid", "step-00000020/model.safetensors: damaged"});
  CHECK(ReadTestFile(toy.CheckpointFile(20)) == damaged);
}

TEST_CASE("a checkpoint of another model is refused by the name of a tensor") {
  const ToyProgram toy;
  REQUIRE(toy.Run(2, toy.Corpus()).exit_code == 0);
  const std::string weights = ReadTestFile(toy.CheckpointFile(20));
  const std::string config = ReadTestFile(toy.run_dir() + "/config.textproto");
  CheckFailed(toy.Run(2, toy.Corpus() + " model.hidden_size=64"), 2,
              {toy.CheckpointFile(20), "tensor 'model.", "but the model needs float32 [64]"});
  CheckFailed(toy.Run(2, toy.Corpus() + " model.encoder_layers=2"), 2,
              {"no tensor 'model.encoder.layers.1."});
  const Outcome smaller =
      toy.Run(2, toy.Corpus() + " model.decoder_layers=2 run.run_dir=" + toy.File("other") +
                     " run.resume=" + toy.run_dir());
  CheckFailed(smaller, 7, {"no tensor 'model.decoder.layers.1."});
  CHECK(ReadTestFile(toy.CheckpointFile(20)) == weights);
  CHECK(ReadTestFile(toy.run_dir() + "/config.textproto") == config);
  // Of the last command, which could not go on.
  CHECK_THAT(ReadTestFile(toy.run_dir() + "/STATUS"),
             Catch::StartsWith("state failed\nexit_code 2\nstep 20\n"));
}

TEST_CASE("the best checkpoint is marked again where a killed run did not come to it") {
  const ToyProgram toy;
  const std::string arguments = toy.Corpus() + " trainer.eval_every=10u trainer.best_metric=nll";
  REQUIRE(toy.Run(1, arguments).exit_code == 0);
  const std::string link = toy.run_dir() + "/ckpt/best-nll";
  REQUIRE(std::filesystem::remove(link));
  REQUIRE(toy.Run(1, arguments + " trainer.max_steps=30 trainer.keep_last=1").exit_code == 0);
  CHECK(std::filesystem::exists(link + "/COMPLETE"));
  CHECK(std::filesystem::exists(toy.run_dir() + "/ckpt/last/COMPLETE"));
}

TEST_CASE("a run from another run's end is refused without a further limit, and goes on with one") {
  const ToyProgram toy;
  REQUIRE(toy.Run(1, toy.Corpus()).exit_code == 0);
  const std::string other = toy.File("other");
  const std::string arguments =
      toy.Corpus() + " run.run_dir=" + other + " run.resume=" + toy.run_dir() + "/ckpt/last";
  CheckFailed(toy.Run(2, arguments), 2, {"trainer.max_steps gives 20 updates"});
  CHECK_FALSE(std::filesystem::exists(other + "/ckpt/last"));
  const Outcome outcome = toy.Run(2, arguments + " trainer.max_steps=22");
  INFO(outcome.output);
  CHECK(outcome.exit_code == 0);
  CHECK(std::filesystem::exists(other + "/ckpt/step-00000022/COMPLETE"));
}

TEST_CASE("an average of the weights may begin and end in the middle of a run") {
  for (const std::string sharded : {"", " trainer.shard_optimizer=true"}) {
    INFO(sharded);
    const ToyProgram toy;
    const std::string arguments = toy.Corpus() + sharded;
    REQUIRE(toy.Run(2, arguments + " trainer.max_steps=10").exit_code == 0);
    const Outcome with = toy.Run(2, arguments + " optimizer.ema_decay=0.9");
    INFO(with.output);
    CHECK(with.exit_code == 0);
    CHECK_THAT(with.output, Catch::Contains("the average begins at its weights"));
    const Outcome without = toy.Run(2, arguments + " trainer.max_steps=25");
    INFO(without.output);
    CHECK(without.exit_code == 0);
    CHECK_THAT(without.output, Catch::Contains("the average of the weights is dropped"));
  }
}

TEST_CASE("the vocabulary of another run is refused") {
  const ToyProgram toy;
  REQUIRE(toy.Run(2, toy.Corpus()).exit_code == 0);
  // Another run's weights with this data.
  const std::string other = " run.run_dir=" + toy.File("other") + " data.vocab_size=30";
  CheckFailed(toy.Run(2, toy.Corpus() + other + " run.resume=" + toy.run_dir()), 7,
              {"was trained with another vocabulary than " + toy.File("other/data/vocab.spm"),
               "data.vocabulary=" + toy.run_dir()});
  // Data prepared otherwise in the same folder.
  CheckFailed(toy.Run(2, toy.Corpus() + " data.vocab_size=30"), 2,
              {toy.run_dir() + "/data", "vocab_size is 40 there, 30 now",
               "another run.run_dir, or delete " + toy.run_dir() + "/data"});
  // A vocabulary that does not belong to the shards beside it.
  std::filesystem::copy_file(toy.File("other/data/vocab.spm"), toy.run_dir() + "/data/vocab.spm",
                             std::filesystem::copy_options::overwrite_existing);
  CheckFailed(toy.Run(2, " data.prepared=" + toy.run_dir() + "/data data.dev_tsv="), 3,
              {"train.bin: made with another vocabulary"});
}

TEST_CASE("a full disk ends with exit code 7 and leaves the earlier checkpoint as it was") {
  const ToyProgram toy;
  REQUIRE(toy.Run(1, toy.Corpus()).exit_code == 0);
  const std::string weights = ReadTestFile(toy.CheckpointFile(20));
  const std::string optimizer = ReadTestFile(toy.CheckpointFile(20, "optimizer.safetensors"));
  REQUIRE(optimizer.size() > 100000);
  // No file may grow beyond 96 KiB.
  const std::string command =
      "ulimit -f 96; exec " + toy.Command(1, toy.Corpus() + " trainer.max_steps=30");
  CheckFailed(Job(command).Wait(), 7, {"step-00000030", "optimizer.safetensors"});
  CHECK_FALSE(toy.HasCheckpoint(30));
  CHECK(ReadTestFile(toy.CheckpointFile(20)) == weights);
  CHECK(ReadTestFile(toy.CheckpointFile(20, "optimizer.safetensors")) == optimizer);
  // With room again the same command goes on.
  CHECK(toy.Run(1, toy.Corpus() + " trainer.max_steps=30").exit_code == 0);
  CHECK(toy.HasCheckpoint(30));
}

TEST_CASE("a sharded optimizer writes the checkpoints of a whole one, on any number of ranks") {
  // Several blocks of parameters, so that every rank has a shard.
  const std::string wide = " model.hidden_size=192 model.ffn_size=512 optimizer.ema_decay=0.9 ";
  const ToyProgram whole, sharded;
  int steps = 0;
  for (const int ranks : {2, 3, 1}) {
    steps += 4;
    const std::string more = wide + "trainer.max_steps=" + std::to_string(steps);
    REQUIRE(whole.Run(ranks, whole.Corpus() + more).exit_code == 0);
    const Outcome outcome =
        sharded.Run(ranks, sharded.Corpus() + more + " trainer.shard_optimizer=true");
    INFO(ranks << " ranks: " << outcome.output);
    REQUIRE(outcome.exit_code == 0);
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      CHECK(ReadTestFile(sharded.CheckpointFile(steps, name)) ==
            ReadTestFile(whole.CheckpointFile(steps, name)));
    }
  }
  // The disk is full while shards arrive: no file may grow beyond 6 MiB, which mpirun itself needs,
  // and Open MPI 5 if it is told to take less for messages within a host.
  REQUIRE(std::filesystem::file_size(sharded.CheckpointFile(steps, "optimizer.safetensors")) >
          size_t{8} << 20);
  const std::string command = "ulimit -f 6144; export OMPI_MCA_btl_sm_segment_size=4194304; exec " +
                              sharded.Command(2, sharded.Corpus() + wide +
                                                     "trainer.max_steps=14 "
                                                     "trainer.shard_optimizer=true");
  CheckFailed(Job(command).Wait(), 7, {"step-00000014", "optimizer.safetensors"});
  CHECK_FALSE(sharded.HasCheckpoint(14));
}

TEST_CASE("gradients of low rank and local updates go on bit for bit") {
  struct Way {
    std::string settings, file;
  };
  const ToyProgram plain;
  REQUIRE(plain.Run(2, plain.Corpus()).exit_code == 0);
  for (const int ranks : {2, 3}) {
    for (const Way& way :
         {Way{" trainer.power_sgd_rank=2 trainer.power_sgd_start=5", "power_sgd.safetensors"},
          Way{" trainer.sync_every=4", "optimizer.safetensors"},
          Way{" trainer.sync_every=2 trainer.sync_every_start=16", "optimizer.safetensors"}}) {
      const ToyProgram whole, in_parts;
      const std::string settings = way.settings + " trainer.checkpoint_every=4u";
      REQUIRE(whole.Run(ranks, whole.Corpus() + settings).exit_code == 0);
      for (const int steps : {12, 20}) {
        const Outcome outcome = in_parts.Run(
            ranks, in_parts.Corpus() + settings + " trainer.max_steps=" + std::to_string(steps));
        INFO(ranks << " ranks," << settings << ": " << outcome.output);
        REQUIRE(outcome.exit_code == 0);
      }
      for (const std::string& name : {std::string("model.safetensors"), way.file}) {
        CHECK(ReadTestFile(in_parts.CheckpointFile(20, name)) ==
              ReadTestFile(whole.CheckpointFile(20, name)));
      }
      CHECK(ReadTestFile(whole.CheckpointFile(20)) != ReadTestFile(plain.CheckpointFile(20)));
    }
  }
}

TEST_CASE("a disk that is full while the data are prepared leaves nothing half made") {
  const ToyProgram toy;
  CheckFailed(Job("ulimit -f 4; exec " + toy.Command(1, toy.Corpus())).Wait(), 7,
              {toy.run_dir() + "/data/", "cannot write: "});
  CHECK_FALSE(std::filesystem::exists(toy.run_dir() + "/data/train.bin"));
  CHECK(toy.Run(1, toy.Corpus()).exit_code == 0);
}

TEST_CASE("a small file system fills up: exit code 7, and the last checkpoint is good") {
  const ToyProgram toy;
  const std::string disk = toy.File("disk");
  std::filesystem::create_directories(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=400k") != 0) {
    WARN("skipped: mounting a file system needs root");
    return;
  }
  const Outcome outcome = toy.Run(2, toy.Corpus() + " run.run_dir=" + disk + "/run");
  const std::string weights = ReadTestFile(disk + "/run/ckpt/step-00000010/model.safetensors");
  const bool has_second = std::filesystem::exists(disk + "/run/ckpt/step-00000020");
  const Outcome more_room = RunCommand("mount -o remount,size=4m " + disk);
  const Outcome again = toy.Run(2, toy.Corpus() + " run.run_dir=" + disk + "/run");
  CHECK(::umount(disk.c_str()) == 0);
  CheckFailed(outcome, 7, {disk + "/run/ckpt: a checkpoint needs ", "are free; free some space"});
  CHECK(weights.size() > 10000);
  CHECK_FALSE(has_second);
  CHECK(more_room.exit_code == 0);
  INFO(again.output);
  CHECK(again.exit_code == 0);
}

TEST_CASE("a folder that is no run directory, and one that another process uses, are refused") {
  const ToyProgram toy;
  std::filesystem::create_directories(toy.run_dir());
  WriteTestFile(toy.run_dir() + "/thesis.tex", "do not touch");
  CheckFailed(toy.Run(2, toy.Corpus()), 2,
              {toy.run_dir() + ": not empty and not a run directory", "nothing there was changed"});
  CHECK(std::distance(std::filesystem::directory_iterator(toy.run_dir()), {}) == 1);
  toy.RemoveRun();

  Job job("exec " + toy.Command(1, toy.Corpus() + " trainer.max_steps=1000000"));
  REQUIRE(WaitUntil([&] { return toy.HasCheckpoint(10); }, 60));
  CheckFailed(toy.Run(1, toy.Corpus()), 2, {"another process is training in this folder"});
}

}  // namespace
}  // namespace dtrain
