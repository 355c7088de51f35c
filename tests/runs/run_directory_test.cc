// run_directory_test.cc - what a run leaves, and which folders it refuses.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/run_directory.h"

#include <nlohmann/json.hpp>

#include "dtrain/runs/checkpoint_directory.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

RunDirectoryOptions OptionsOf(const std::string& path, ResumePolicy resume = ResumePolicy::kNever) {
  return {.path = path,
          .resume = resume,
          .arguments = {"nmt_train", "--run_dir", path, "--resume=never", "model.name=it's"}};
}

std::string WithoutTime(const std::string& line) { return line.substr(line.find("  ") + 2); }

TEST_CASE("a new run directory has its folders and files") {
  const TemporaryFolder folder;
  const std::string path = folder.File("runs/nmt");
  const RunDirectory run = *RunDirectory::Open(OptionsOf(path));
  CHECK_FALSE(run.is_resumed());
  REQUIRE(run.WriteConfig("seed: 1\n").ok());
  REQUIRE(run.WriteEnvironment(CollectEnvironment().Set("ranks", 2)).ok());
  const std::vector<EvaluationSample> samples = {{"a\tb", "c\\", "d\n"}};
  REQUIRE(run.WriteSamples(100, samples).ok());
  REQUIRE(run.WriteStatus({.state = "stopped", .exit_code = ExitCode::kStopped, .step = 100}).ok());

  CHECK(ReadTestFile(path + "/config.textproto") == "seed: 1\n");
  CHECK(WithoutTime(ReadTestFile(path + "/cmdline.txt")) ==
        "nmt_train --run_dir " + path + " --resume=never 'model.name=it'\\''s'\n");
  const nlohmann::json environment = nlohmann::json::parse(ReadTestFile(path + "/env.json"));
  CHECK(environment["ranks"] == 2);
  CHECK_FALSE(environment["host"].get<std::string>().empty());
  CHECK(environment["cores"] > 0);
  CHECK(ReadTestFile(path + "/samples/step-00000100.tsv") ==
        "source\treference\thypothesis\na\\tb\tc\\\\\td\\n\n");
  CHECK_THAT(ReadTestFile(path + "/STATUS"),
             Catch::StartsWith("state stopped\nexit_code 75\nstep 100\nhost "));
  CHECK(run.checkpoint_path() == path + "/ckpt");
}

TEST_CASE("metrics and curves are opened and flushed together") {
  const TemporaryFolder folder;
  const RunDirectory run = *RunDirectory::Open(OptionsOf(folder.path()));
  RunMetrics metrics = *run.OpenMetrics({});
  REQUIRE(metrics.steps.Write(JsonRecord().Set("step", 1)).ok());
  REQUIRE(metrics.events.Write(JsonRecord().Set("event", "start")).ok());
  REQUIRE(metrics.Flush().ok());
  CHECK_THAT(ReadTestFile(folder.File("metrics/steps.jsonl")), Catch::EndsWith("{\"step\":1}\n"));
  CHECK_THAT(ReadTestFile(folder.File("metrics/events.jsonl")),
             Catch::EndsWith("{\"event\":\"start\"}\n"));
  CHECK(ReadTestFile(folder.File("metrics/eval.jsonl")) ==
        "{\"schema\":\"dtrain.eval\",\"version\":1}\n");
  CHECK_FALSE(fs::is_empty(folder.File("tb/train")));
  CHECK_FALSE(fs::is_empty(folder.File("tb/eval")));
}

TEST_CASE("a run without curves has metrics alone") {
  const TemporaryFolder folder;
  RunDirectoryOptions options = OptionsOf(folder.path());
  options.tensorboard = false;
  const RunDirectory run = *RunDirectory::Open(options);
  RunMetrics metrics = *run.OpenMetrics({});
  CHECK_FALSE(metrics.train_board.has_value());
  CHECK_FALSE(metrics.eval_board.has_value());
  CHECK(metrics.Flush().ok());
  CHECK(fs::exists(folder.File("metrics/steps.jsonl")));
  CHECK_FALSE(fs::exists(folder.File("tb")));
}

TEST_CASE("a resumed run keeps its commands and events and drops later metrics") {
  const TemporaryFolder folder;
  {
    const RunDirectory run = *RunDirectory::Open(OptionsOf(folder.path()));
    RunMetrics metrics = *run.OpenMetrics({});
    for (int step = 1; step <= 3; ++step) {
      REQUIRE(metrics.steps.Write(JsonRecord().Set("step", step)).ok());
      REQUIRE(metrics.events.Write(JsonRecord().Set("step", step)).ok());
    }
  }
  const RunDirectory run = *RunDirectory::Open(OptionsOf(folder.path(), ResumePolicy::kAuto));
  CHECK(run.is_resumed());
  const RunMetrics metrics = *run.OpenMetrics(2);
  CHECK_THAT(ReadTestFile(folder.File("metrics/steps.jsonl")), Catch::EndsWith("{\"step\":2}\n"));
  CHECK_THAT(ReadTestFile(folder.File("metrics/events.jsonl")), Catch::EndsWith("{\"step\":3}\n"));
  const std::string commands = ReadTestFile(folder.File("cmdline.txt"));
  CHECK(std::count(commands.begin(), commands.end(), '\n') == 2);
}

TEST_CASE("an evaluation that is still to be made leaves no record of an earlier try") {
  const TemporaryFolder folder;
  {
    const RunDirectory run = *RunDirectory::Open(OptionsOf(folder.path()));
    RunMetrics metrics = *run.OpenMetrics({});
    for (int step = 1; step <= 3; ++step) {
      REQUIRE(metrics.steps.Write(JsonRecord().Set("step", step)).ok());
      REQUIRE(metrics.eval.Write(JsonRecord().Set("step", step)).ok());
    }
  }
  const RunDirectory run = *RunDirectory::Open(OptionsOf(folder.path(), ResumePolicy::kAuto));
  const RunMetrics metrics = *run.OpenMetrics(2, /*evaluation_due=*/true);
  CHECK_THAT(ReadTestFile(folder.File("metrics/steps.jsonl")), Catch::EndsWith("{\"step\":2}\n"));
  CHECK_THAT(ReadTestFile(folder.File("metrics/eval.jsonl")), Catch::EndsWith("{\"step\":1}\n"));
}

TEST_CASE("resume=auto begins where there is no run") {
  const TemporaryFolder folder;
  CHECK_FALSE(RunDirectory::Open(OptionsOf(folder.File("new"), ResumePolicy::kAuto))->is_resumed());
}

TEST_CASE("a folder with a run is refused with both possible commands") {
  const TemporaryFolder folder;
  const std::string path = folder.File("nmt");
  REQUIRE(RunDirectory::Open(OptionsOf(path)).ok());
  REQUIRE(CheckpointDirectory::Open(path + "/ckpt")->Save(5, {}).ok());
  fs::create_directory(path + "-2");
  const Status status = RunDirectory::Open(OptionsOf(path)).status();
  CHECK(status.code() == ExitCode::kUsage);
  CHECK(status.message() == path +
                                ": a run is already there (checkpoints: 1). To continue it:\n"
                                "  nmt_train --run_dir " +
                                path +
                                " 'model.name=it'\\''s' --resume=auto\n"
                                "To start anew in another folder:\n"
                                "  nmt_train --resume=never 'model.name=it'\\''s' --run_dir=" +
                                path + "-3");
  const std::string commands = ReadTestFile(path + "/cmdline.txt");
  CHECK(std::count(commands.begin(), commands.end(), '\n') == 1);
}

TEST_CASE("a folder of several seeds' runs is refused with the name of one") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("seeds.json"), "{}");
  const Status status = RunDirectory::Open(OptionsOf(folder.path(), ResumePolicy::kAuto)).status();
  CHECK(status.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(status.message()), Catch::Contains("holds runs of several seeds") &&
                                                Catch::Contains(folder.path() + "/seed-N"));
}

TEST_CASE(
    "a folder of seeds takes more of them, a folder of other things or of one run takes none") {
  const TemporaryFolder folder;
  CHECK(CheckFolderOfSeeds(folder.File("absent")).ok());
  CHECK(CheckFolderOfSeeds(folder.path()).ok());
  // The first of several was begun; there is no seeds.json yet.
  CHECK(RunDirectory::Open(OptionsOf(folder.File("seed-1"), ResumePolicy::kAuto)).ok());
  CHECK(CheckFolderOfSeeds(folder.path()).ok());
  const Status one = RunDirectory::Open(OptionsOf(folder.path(), ResumePolicy::kAuto)).status();
  CHECK_THAT(std::string(one.message()), Catch::Contains("holds runs of several seeds"));
  CHECK_THAT(std::string(CheckFolderOfSeeds(folder.File("seed-1")).message()),
             Catch::Contains("holds a run of one seed"));
  const TemporaryFolder other;
  WriteTestFile(other.File("thesis.tex"), "");
  const Status refused = CheckFolderOfSeeds(other.path());
  CHECK(refused.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(refused.message()), Catch::Contains("not empty"));
}

TEST_CASE("a start that found no room may be made again") {
  const TemporaryFolder folder;
  const std::string path = folder.File("run");
  CHECK(RunDirectory::Open(OptionsOf(path, ResumePolicy::kAuto)).ok());
  // As if the disk had been full behind the first file.
  for (const char* const name : {"metrics", "logs", "ckpt", "samples"}) {
    std::filesystem::remove_all(path + "/" + name);
  }
  WriteTestFile(path + "/logs", "in the way");
  CHECK_FALSE(RunDirectory::Open(OptionsOf(path, ResumePolicy::kAuto)).ok());
  std::filesystem::remove(path + "/logs");
  CHECK(RunDirectory::Open(OptionsOf(path, ResumePolicy::kAuto)).ok());
}

TEST_CASE("the run of another program is refused whatever is asked for, and stays as it is") {
  const TemporaryFolder folder;
  RunDirectoryOptions options = OptionsOf(folder.path(), ResumePolicy::kAuto);
  options.program = "nmt_train";
  {
    const RunDirectory run = *RunDirectory::Open(options);
    REQUIRE(run.WriteEnvironment(CollectEnvironment()).ok());
    REQUIRE(run.WriteStatus({.state = "done"}).ok());
  }
  CHECK(nlohmann::json::parse(ReadTestFile(folder.File("env.json")))["program"] == "nmt_train");
  CHECK(RunDirectory::Open(options).ok());
  const std::string status = ReadTestFile(folder.File("STATUS"));
  const std::string commands = ReadTestFile(folder.File("cmdline.txt"));
  options.program = "bert_classify";
  for (const ResumePolicy resume :
       {ResumePolicy::kAuto, ResumePolicy::kNever, ResumePolicy::kFromElsewhere}) {
    options.resume = resume;
    const Status refused = RunDirectory::Open(options).status();
    CHECK(refused.code() == ExitCode::kUsage);
    CHECK(refused.message() == folder.path() +
                                   ": is a run of nmt_train, and this is bert_classify; choose "
                                   "another --run_dir, nothing there was changed");
  }
  CHECK(ReadTestFile(folder.File("STATUS")) == status);
  CHECK(ReadTestFile(folder.File("cmdline.txt")) == commands);
  // Earlier versions did not write it.
  options.resume = ResumePolicy::kAuto;
  WriteTestFile(folder.File("env.json"), "{\"ranks\":2}\n");
  CHECK(RunDirectory::Open(options).ok());
}

TEST_CASE("a folder with other things is refused and stays as it is") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("thesis.tex"), "x");
  for (const ResumePolicy resume : {ResumePolicy::kNever, ResumePolicy::kAuto}) {
    const Status status = RunDirectory::Open(OptionsOf(folder.path(), resume)).status();
    CHECK(status.code() == ExitCode::kUsage);
    CHECK(status.message() == folder.path() +
                                  ": not empty and not a run directory; choose another --run_dir, "
                                  "nothing there was changed");
  }
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  const Status file = RunDirectory::Open(OptionsOf(folder.File("thesis.tex"))).status();
  CHECK(file.code() == ExitCode::kUsage);
  CHECK(RunDirectory::Open(OptionsOf("")).status().code() == ExitCode::kUsage);
}

TEST_CASE("a run from another one's checkpoint may begin again until it has one of its own") {
  const TemporaryFolder folder;
  const RunDirectoryOptions options = OptionsOf(folder.path(), ResumePolicy::kFromElsewhere);
  CHECK_FALSE(RunDirectory::Open(options)->is_resumed());
  CHECK(RunDirectory::Open(options)->is_resumed());  // the first attempt failed
  CHECK(RunDirectory::Open(OptionsOf(folder.path())).status().code() == ExitCode::kUsage);
  fs::create_directories(folder.File("ckpt/step-00000010"));
  CHECK(RunDirectory::Open(options).status().code() == ExitCode::kUsage);
}

TEST_CASE("a folder that nobody can look into is an error of storage, a dangling link of usage") {
  const TemporaryFolder folder;
  const Status long_name =
      RunDirectory::Open(OptionsOf(folder.File(std::string(300, 'x')))).status();
  CHECK(long_name.code() == ExitCode::kStorage);
  fs::create_symlink("loop", folder.File("loop"));
  CHECK(RunDirectory::Open(OptionsOf(folder.File("loop"))).status().code() == ExitCode::kStorage);
  fs::create_symlink("nowhere", folder.File("link"));
  const Status dangling = RunDirectory::Open(OptionsOf(folder.File("link"))).status();
  CHECK(dangling.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(dangling.message()),
             Catch::Contains("is a link whose target does not exist"));
}

TEST_CASE("a folder that cannot be made is refused with exit code 7") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("file"), "");
  const Status status = RunDirectory::Open(OptionsOf(folder.File("file/run"))).status();
  CHECK(status.code() == ExitCode::kStorage);
}

TEST_CASE("two processes cannot train in one folder") {
  const TemporaryFolder folder;
  const RunDirectory run = *RunDirectory::Open(OptionsOf(folder.path()));
  const Status status = RunDirectory::Open(OptionsOf(folder.path(), ResumePolicy::kAuto)).status();
  CHECK(status.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(status.message()),
             Catch::StartsWith(folder.path() + ": another process is training in this folder"));
}

TEST_CASE("every rank has a log of its own") {
  const TemporaryFolder folder;
  std::string handed_on;
  const LogSink sink =
      *OpenRankLog(folder.path(), 17,
                   [&](LogLevel /*level*/, std::string_view message) { handed_on += message; });
  sink(LogLevel::kWarning, "slow disk");
  sink(LogLevel::kInfo, "step 1");
  CHECK(handed_on == "slow diskstep 1");
  const std::string log = ReadTestFile(folder.File("logs/rank-00017.log"));
  CHECK_THAT(log,
             Catch::Contains("Z warning slow disk\n") && Catch::EndsWith("Z info    step 1\n"));
}

}  // namespace
}  // namespace dtrain
