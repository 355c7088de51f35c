// checkpoint_directory_test.cc - saving, damaging, finding and rotating checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/checkpoint_directory.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "dtrain/base/check.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/log.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/without_links.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

const std::vector<float> kWeights = {1, 2, 3, 4};

std::vector<CheckpointFile> SomeFiles(const std::string& state = "step: 7\n") {
  TensorGroup model;
  model.tensors = {{"w", DType::kFloat32, {4}, std::as_bytes(std::span(kWeights))},
                   {"v", DType::kFloat32, {2}, std::as_bytes(std::span(kWeights)).first(8)}};
  return {{"model.safetensors", model},
          {"state.textproto", state},
          {"tokenizer/joint.spm", std::string("a\0b", 3)}};
}

// Collects the warnings of a test.
class LogCapture {
 public:
  LogCapture()
      : previous_(SetLogSink([this](LogLevel level, std::string_view message) {
          if (level >= LogLevel::kWarning) lines_ += std::string(message) + "\n";
        })) {}
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  ~LogCapture() { SetLogSink(previous_); }
  const std::string& lines() const { return lines_; }

 private:
  std::string lines_;
  LogSink previous_;
};

CheckpointDirectory OpenDirectory(const TemporaryFolder& folder,
                                  const CheckpointRotation& rotation = {}) {
  return *CheckpointDirectory::Open(folder.path(), rotation);
}

TEST_CASE("a pipe or an endless device in place of a checkpoint's file is refused at once") {
  for (const char* const name :
       {"MANIFEST", "COMPLETE", "model.safetensors", "state.textproto", "tokenizer/joint.spm"}) {
    const bool as_pipe = GENERATE(false, true);
    const TemporaryFolder folder;
    CheckpointDirectory directory = OpenDirectory(folder);
    const std::string saved = directory.Save(1, SomeFiles())->path;
    const std::string file = saved + "/" + name;
    fs::remove(file);
    if (as_pipe) {
      REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    } else {
      fs::create_symlink("/dev/zero", file);
    }
    const Status refused = Checkpoint::Open(saved).status();
    CHECK(refused.code() == ExitCode::kStorage);
    CHECK(refused.message() == file + ": not a regular file; check the path");
  }
}

TEST_CASE("a checkpoint comes back as it was saved") {
  const TemporaryFolder folder;
  CheckpointDirectory directory = OpenDirectory(folder);
  const SavedCheckpoint saved = *directory.Save(12, SomeFiles());
  CHECK(saved.path == folder.File("step-00000012"));
  CHECK(saved.bytes > 24);

  const Checkpoint checkpoint = *Checkpoint::Open(saved.path);
  CHECK(checkpoint.step() == 12);
  CHECK(checkpoint.FileNames() ==
        std::vector<std::string>{"model.safetensors", "state.textproto", "tokenizer/joint.spm"});
  CHECK(*checkpoint.ReadText("tokenizer/joint.spm") == std::string("a\0b", 3));
  const SafetensorsFile model = *checkpoint.OpenTensors("model.safetensors");
  CHECK(Crc32c(model.Find("w")->data) == Crc32c(std::as_bytes(std::span(kWeights))));
  CHECK(fs::read_symlink(folder.File("last")) == "step-00000012");
  CHECK(checkpoint.ReadText("x").status().message() ==
        saved.path + ": the checkpoint has no file 'x'");
}

TEST_CASE("two files of one name are no checkpoint") {
  const TemporaryFolder folder;
  std::vector<CheckpointFile> files = SomeFiles();
  files.push_back({"model.safetensors", std::string("x")});
  CHECK_THROWS_WITH(OpenDirectory(folder).Save(12, files),
                    Catch::Contains("two files 'model.safetensors'"));
}

TEST_CASE("a step saved again replaces its checkpoint") {
  const TemporaryFolder folder;
  CheckpointDirectory directory = OpenDirectory(folder);
  REQUIRE(directory.Save(3, SomeFiles("old")).ok());
  REQUIRE(directory.Save(3, SomeFiles("new")).ok());
  CHECK(*Checkpoint::Open(folder.File("step-00000003"))->ReadText("state.textproto") == "new");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
}

struct Damage {
  std::string reason;
  std::function<void(const std::string& checkpoint)> inflict;
};

void Overwrite(const std::string& path, size_t position) {
  std::string content = ReadTestFile(path);
  content[position] = static_cast<char>(content[position] ^ 1);
  WriteTestFile(path, content);
}

// A manifest with a valid checksum, whatever it says.
void ForgeManifest(const std::string& checkpoint, const std::string& text) {
  char complete[40];
  std::snprintf(complete, sizeof(complete), "MANIFEST crc32c %08x\n", Crc32c(text));
  WriteTestFile(checkpoint + "/MANIFEST", text);
  WriteTestFile(checkpoint + "/COMPLETE", complete);
}

std::vector<Damage> AllDamages() {
  return {
      {"/model.safetensors: damaged: tensor 'w' has a wrong checksum",
       [](const std::string& c) {
         const std::string path = c + "/model.safetensors";
         Overwrite(path, ReadTestFile(path).size() - 1);
       }},
      {"/model.safetensors: damaged",
       [](const std::string& c) { Overwrite(c + "/model.safetensors", 9); }},
      {"/model.safetensors: damaged: 8 bytes instead of ",
       [](const std::string& c) { fs::resize_file(c + "/model.safetensors", 8); }},
      {"/state.textproto: damaged: it has a wrong checksum",
       [](const std::string& c) { Overwrite(c + "/state.textproto", 0); }},
      {"/tokenizer/joint.spm: missing, although the checkpoint's MANIFEST lists it",
       [](const std::string& c) { fs::remove(c + "/tokenizer/joint.spm"); }},
      {": incomplete: it has no file COMPLETE, so it was not fully written",
       [](const std::string& c) { fs::remove(c + "/COMPLETE"); }},
      {"/MANIFEST: damaged: its checksum is not the one in COMPLETE",
       [](const std::string& c) { Overwrite(c + "/MANIFEST", 20); }},
      {": not a checkpoint: it has no files MANIFEST and COMPLETE",
       [](const std::string& c) {
         fs::remove_all(c);
         fs::create_directory(c);
       }},
      {"/MANIFEST: damaged: ", [](const std::string& c) { ForgeManifest(c, "{"); }},
      {"/MANIFEST: damaged: ", [](const std::string& c) { ForgeManifest(c, "{\"format\":1}"); }},
      {"/MANIFEST: format 'other' version 9; this program reads 'dtrain-checkpoint' version 1",
       [](const std::string& c) { ForgeManifest(c, R"({"format":"other","version":9})"); }},
      {"/MANIFEST: '../x' cannot be the name of a checkpoint's file",
       [](const std::string& c) {
         ForgeManifest(c, R"({"format":"dtrain-checkpoint","version":1,"step":1,)"
                          R"("files":[{"name":"../x","size":0,"crc32c":"0"}]})");
       }},
  };
}

TEST_CASE("each damage is refused with its reason and the one before is taken") {
  for (const Damage& damage : AllDamages()) {
    const TemporaryFolder folder;
    CheckpointDirectory directory = OpenDirectory(folder);
    REQUIRE(directory.Save(1, SomeFiles()).ok());
    REQUIRE(directory.Save(2, SomeFiles()).ok());
    const std::string newest = folder.File("step-00000002");
    damage.inflict(newest);
    INFO(damage.reason);

    const Status status = Checkpoint::Open(newest).status();
    CHECK(status.code() == ExitCode::kStorage);
    CHECK_THAT(std::string(status.message()), Catch::StartsWith(newest + damage.reason));

    const LogCapture log;
    CHECK((*FindLatestGood(folder.path()))->step() == 1);
    CHECK_THAT(log.lines(), Catch::StartsWith("checkpoint step-00000002 is refused: " + newest +
                                              damage.reason) &&
                                Catch::Contains("; step-00000001 is used instead"));
  }
}

TEST_CASE("without a good checkpoint there is an error, without any there is none") {
  const TemporaryFolder folder;
  CHECK_FALSE(FindLatestGood(folder.File("none"))->has_value());
  CHECK_FALSE(FindLatestGood(folder.path())->has_value());
  fs::create_directory(folder.File("step-00000005"));
  const LogCapture log;
  const Status status = FindLatestGood(folder.path()).status();
  CHECK(status.code() == ExitCode::kStorage);
  CHECK(status.message() == folder.path() +
                                ": none of the 1 checkpoints is valid; the newest one: " +
                                folder.File("step-00000005") +
                                ": not a checkpoint: it has no files MANIFEST and COMPLETE");
}

TEST_CASE("sizes alone are checked where the root has read everything") {
  const TemporaryFolder folder;
  CheckpointDirectory directory = OpenDirectory(folder);
  const std::string path = directory.Save(1, SomeFiles())->path;
  Overwrite(path + "/state.textproto", 0);
  CHECK(Checkpoint::Open(path, {.verify_contents = false}).ok());
  fs::resize_file(path + "/state.textproto", 2);
  CHECK_FALSE(Checkpoint::Open(path, {.verify_contents = false}).ok());
}

TEST_CASE("rotation keeps the last, the best and every n-th") {
  const TemporaryFolder folder;
  CheckpointDirectory directory = OpenDirectory(folder, {.keep_last = 2, .keep_every = 40});
  for (int64_t step = 10; step <= 90; step += 10) {
    REQUIRE(directory.Save(step, SomeFiles()).ok());
    if (step == 20 || step == 50) REQUIRE(directory.MarkBest("bleu", step).ok());
  }
  CHECK(ListCheckpoints(folder.path()) == std::vector<int64_t>{40, 50, 80, 90});
  CHECK(fs::read_symlink(folder.File("best-bleu")) == "step-00000050");
  CHECK_THROWS_AS(directory.MarkBest("bleu", 20), CheckError);
}

TEST_CASE("what was the best by another metric stays, under another name") {
  const TemporaryFolder folder;
  CheckpointDirectory directory = OpenDirectory(folder, {.keep_last = 1});
  for (const int64_t step : {10, 20}) {
    REQUIRE(directory.Save(step, SomeFiles(), "bleu").ok());
    directory.KeepBestOnlyBy("nll");
  }
  // A copy that somebody made under such a name.
  fs::create_directory(folder.File("best-of-all"));
  REQUIRE(directory.Save(30, SomeFiles(), "nll").ok());
  REQUIRE(directory.Save(40, SomeFiles()).ok());
  directory.KeepBestOnlyBy("nll");
  CHECK(fs::read_symlink(folder.File("best-nll")) == "step-00000030");
  CHECK(fs::read_symlink(folder.File("former-best-bleu")) == "step-00000010");
  CHECK(fs::read_symlink(folder.File("former-best-bleu-2")) == "step-00000020");
  CHECK(fs::is_directory(folder.File("former-best-of-all")));
  CHECK(ListCheckpoints(folder.path()) == std::vector<int64_t>{10, 20, 30, 40});
  CHECK(BestMetricOf(folder.path()) == "nll");
  // A mark of what is gone is none to keep.
  fs::remove_all(folder.File("step-00000030"));
  directory.KeepBestOnlyBy("");
  CHECK_FALSE(fs::is_symlink(folder.File("best-nll")));
  CHECK_FALSE(fs::is_symlink(folder.File("former-best-nll")));
}

TEST_CASE("a checkpoint put aside replaces none that was put aside before") {
  const TemporaryFolder folder;
  CheckpointDirectory directory = OpenDirectory(folder, {.keep_last = 3});
  for (int times = 0; times < 2; ++times) {
    REQUIRE(directory.Save(10, SomeFiles()).ok());
    REQUIRE(directory.Save(20, SomeFiles()).ok());
    PutAsideNewer(folder.path(), 10);
  }
  CHECK(ListCheckpoints(folder.path()) == std::vector<int64_t>{10});
  CHECK(fs::exists(folder.File(".refused-step-00000020/COMPLETE")));
  CHECK(fs::exists(folder.File(".refused-step-00000020-2/COMPLETE")));
}

TEST_CASE("where no links can be made, files hold what these would point to") {
  const TemporaryFolder folder;
  CheckpointDirectory directory = OpenDirectory(folder, {.keep_last = 1});
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = testing::ForbidLinks() && directory.Save(1, SomeFiles(), "auc").ok() &&
                directory.MarkBest("bleu", 1).ok();
    for (const int64_t step : {2, 3}) good = good && directory.Save(step, SomeFiles()).ok();
    ::_exit(good ? 0 : 1);
  }
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  CHECK(ListCheckpoints(folder.path()) == std::vector<int64_t>{1, 3});
  CHECK(ReadTestFile(folder.File("last")) == "step-00000003");
  CHECK(OpenCheckpoint(folder.path(), "bleu")->step() == 1);
  CHECK(OpenCheckpoint(folder.path(), "auc")->step() == 1);
  CHECK(OpenCheckpoint(folder.path())->step() == 3);
  // Links again.
  REQUIRE(directory.Save(4, SomeFiles(), "bleu").ok());
  CHECK(fs::read_symlink(folder.File("last")) == "step-00000004");
  CHECK(OpenCheckpoint(folder.path(), "bleu")->step() == 4);
}

TEST_CASE("a run copied with its links followed is read, and goes on") {
  const TemporaryFolder folder;
  CheckpointDirectory directory = OpenDirectory(folder, {.keep_last = 2});
  REQUIRE(directory.Save(10, SomeFiles(), "bleu").ok());
  REQUIRE(directory.Save(20, SomeFiles()).ok());
  for (const std::string name : {"last", "best-bleu"}) {
    const fs::path target = folder.File(fs::read_symlink(folder.File(name)));
    fs::remove(folder.File(name));
    fs::copy(target, folder.File(name), fs::copy_options::recursive);
  }
  CHECK(OpenCheckpoint(folder.path(), "bleu")->step() == 10);
  CHECK(OpenCheckpoint(folder.path(), "")->step() == 20);
  REQUIRE(directory.MarkBest("bleu", 10).ok());
  CHECK(fs::read_symlink(folder.File("best-bleu")) == "step-00000010");
  REQUIRE(directory.Save(30, SomeFiles()).ok());
  CHECK(fs::read_symlink(folder.File("last")) == "step-00000030");
  CHECK(ListCheckpoints(folder.path()) == std::vector<int64_t>{10, 20, 30});
}

TEST_CASE("what an interrupted save left is removed and never read") {
  const TemporaryFolder folder;
  fs::create_directory(folder.File(".tmp-step-00000009"));
  WriteTestFile(folder.File(".tmp-step-00000009/model.safetensors"), "half");
  CHECK_FALSE(FindLatestGood(folder.path())->has_value());
  OpenDirectory(folder);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("a disk that fills up keeps the earlier checkpoint and leaves no rest") {
  const TemporaryFolder folder;
  CheckpointDirectory directory = OpenDirectory(folder);
  REQUIRE(directory.Save(1, SomeFiles()).ok());
  std::vector<CheckpointFile> files = SomeFiles(std::string(1 << 20, 'x'));
  Status status;
  {
    const FileSizeLimit limit(64 << 10);
    status = directory.Save(2, files).status();
  }
  CHECK(status.code() == ExitCode::kStorage);
  CHECK(status.message() ==
        "the checkpoint of step 2 is not saved: " +
            folder.File(".tmp-step-00000002/state.textproto") +
            ": cannot write: File too large; raise the limit on file sizes (ulimit -f)");
  CHECK((*FindLatestGood(folder.path()))->step() == 1);
  CHECK(fs::read_symlink(folder.File("last")) == "step-00000001");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("a checkpoint larger than the free space is not begun") {
  const TemporaryFolder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=256k") != 0) {
    WARN("skipped: this user cannot mount a small file system");
    return;
  }
  {
    CheckpointDirectory directory = OpenDirectory(folder);
    CHECK(directory.Save(1, SomeFiles()).ok());
    const Status status = directory.Save(2, SomeFiles(std::string(1 << 20, 'x'))).status();
    CHECK(status.code() == ExitCode::kStorage);
    CHECK_THAT(std::string(status.message()),
               Catch::StartsWith(folder.path() + ": a checkpoint needs 1.1 MiB, but only 0."));
    CHECK((*FindLatestGood(folder.path()))->step() == 1);

    WriteTestFile(folder.File("ballast"), std::string(100 << 10, 'x'));
    const std::vector<std::byte> data(size_t{200} << 10);
    const std::vector<NamedTensor> tensors = {
        {"t", DType::kUint8, {static_cast<int64_t>(data.size())}, data}};
    const Status full = WriteSafetensors(folder.File("x"), tensors).status();
    CHECK(full.code() == ExitCode::kStorage);
    CHECK(full.message() == folder.File("x") +
                                ": cannot write: No space left on device; free some space and "
                                "run the same command again");
  }
  CHECK(::umount(folder.path().c_str()) == 0);
}

TEST_CASE("a folder that cannot be made is refused") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("file"), "");
  const Status status = CheckpointDirectory::Open(folder.File("file/ckpt")).status();
  CHECK(status.code() == ExitCode::kStorage);
  CHECK(status.message() ==
        folder.File("file/ckpt") + ": cannot create the folder: Not a directory; check the path");
}

TEST_CASE("a model is found by its checkpoint, its folder or its run") {
  const TemporaryFolder folder;
  CheckpointDirectory directory = *CheckpointDirectory::Open(folder.File("ckpt"));
  REQUIRE(directory.Save(1, SomeFiles()).ok());
  REQUIRE(directory.MarkBest("bleu", 1).ok());
  REQUIRE(directory.Save(2, SomeFiles()).ok());
  CHECK(OpenCheckpoint(folder.path())->step() == 2);
  CHECK(OpenCheckpoint(folder.path(), "bleu")->step() == 1);
  CHECK(OpenCheckpoint(folder.File("ckpt"), "bleu")->step() == 1);
  CHECK(OpenCheckpoint(folder.File("ckpt/last"), "bleu")->step() == 2);

  const Status other = OpenCheckpoint(folder.path(), "chrf").status();
  CHECK(other.code() == ExitCode::kUsage);
  CHECK(other.message() ==
        folder.path() + " has no best checkpoint for chrf, only by bleu; name a checkpoint, like " +
            folder.File("ckpt") + "/step-00001000");
  REQUIRE(directory.MarkBest("mis/auc_50%", 2).ok());
  CHECK(OpenCheckpoint(folder.path(), "mis/auc_50%")->step() == 2);
  fs::remove(folder.File("ckpt/best-bleu"));
  CHECK(BestMetricOf(folder.path()) == "mis/auc_50%");
  fs::create_directories(folder.File("runs/seed-3"));
  CHECK_THAT(std::string(OpenCheckpoint(folder.File("runs")).status().message()),
             Catch::Contains("give one of them, like " + folder.File("runs/seed-3")));

  const Status missing = OpenCheckpoint(folder.File("none")).status();
  CHECK(missing.code() == ExitCode::kUsage);
  CHECK(missing.message() == folder.File("none") + ": no such run or checkpoint; check the path");
  fs::create_directory(folder.File("empty"));
  CHECK_THAT(std::string(OpenCheckpoint(folder.File("empty")).status().message()),
             Catch::StartsWith(folder.File("empty") +
                               ": neither a checkpoint nor a run with checkpoints"));
}

}  // namespace
}  // namespace dtrain
