// run_recorder_test.cc - what STATUS says of a run, from its preparation to its end.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/run_recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/log.h"
#include "dtrain/base/unix_time.h"
#include "dtrain/comm/self_communicator.h"
#include "dtrain/run.pb.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/runs/record_names.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

// A run directory, and runs in it that do nothing.
class ToyRuns {
 public:
  ToyRuns() { run_.set_run_dir(folder_.File("run")); }

  std::unique_ptr<RunRecorder> Open() {
    std::unique_ptr<RunRecorder> recorder = *RunRecorder::Open("toy", run_, run_, runtime_);
    SetLogSink([](LogLevel, std::string_view) {});  // its file goes with the folder
    return recorder;
  }
  Status OpenAs(const std::string& program) {
    return RunRecorder::Open(program, run_, run_, runtime_).status();
  }
  proto::RunConfig& config() { return run_; }
  std::string StatusFile() const { return ReadTestFile(folder_.File("run/STATUS")); }
  std::string File(const std::string& name) const { return folder_.File("run/" + name); }
  ~ToyRuns() { SetLogSink(nullptr); }

 private:
  TemporaryFolder folder_;
  proto::RunConfig run_;
  SelfCommunicator comm_;
  Runtime runtime_{.comm = comm_, .device = {}, .mpi = "none", .arguments = {"toy"}};
};

TEST_CASE("a run is said to be preparing until its first update") {
  ToyRuns runs;
  const std::unique_ptr<RunRecorder> recorder = runs.Open();
  CHECK_THAT(runs.StatusFile(), Catch::StartsWith("state preparing\nexit_code 0\nstep 0\n"));
  const StatusOr<TrainResult> result = recorder->Run([&]() -> StatusOr<TrainResult> {
    CHECK_THAT(runs.StatusFile(), Catch::StartsWith("state preparing\n"));
    DT_RETURN_IF_ERROR(recorder->Begin({}));
    CHECK_THAT(runs.StatusFile(), Catch::StartsWith("state running\n"));
    return TrainResult{};
  });
  CHECK(result.ok());
  CHECK_THAT(runs.StatusFile(), Catch::StartsWith("state done\nexit_code 0\n"));
}

TEST_CASE("records have their time, the test set's result is kept, and the host is sampled") {
  ToyRuns runs;
  const std::unique_ptr<RunRecorder> recorder = runs.Open();
  const double begin = SecondsSince1970();
  const StatusOr<TrainResult> result = recorder->Run([&]() -> StatusOr<TrainResult> {
    DT_RETURN_IF_ERROR(recorder->Begin({}));
    recorder->OnStep({.step = 1});
    TrainResult trained;
    trained.state.step = 1;
    trained.test_evaluation = EvaluationResult{.metrics = {{"bleu", 29.5}}};
    return trained;
  });
  REQUIRE(result.ok());
  const auto last_record = [&](std::string_view stream) {
    std::istringstream lines(ReadTestFile(RecordsPath(recorder->path(), stream)));
    std::string last;
    for (std::string line; std::getline(lines, line);) last = line;
    return nlohmann::json::parse(last);
  };
  for (const std::string_view stream :
       {recorded::kSteps, recorded::kEvents, recorded::kTest, recorded::kHost}) {
    INFO(stream);
    CHECK(last_record(stream)["t"].get<double>() >= begin);
    CHECK(last_record(stream)["t"].get<double>() <= SecondsSince1970());
  }
  CHECK(last_record(recorded::kEvents)["ranks"] == 1);
  CHECK(last_record(recorded::kTest)["bleu"] == 29.5);
  CHECK(last_record(recorded::kHost)["ranks"]["0"]["memory"].get<double>() > 0.0);
}

TEST_CASE("a run writes its report at evaluations and at its end") {
  ToyRuns runs;
  const std::unique_ptr<RunRecorder> recorder = runs.Open();
  const auto report = [&] { return nlohmann::json::parse(ReadTestFile(runs.File("report.json"))); };
  const StatusOr<TrainResult> result = recorder->Run([&]() -> StatusOr<TrainResult> {
    DT_RETURN_IF_ERROR(recorder->Begin({}));
    CHECK_FALSE(std::filesystem::exists(runs.File("report.html")));
    recorder->OnStep({.step = 1});
    const EvaluationResult evaluation{.metrics = {{"nll", 2.5}}};
    recorder->OnEvaluation({.step = 1, .result = &evaluation});
    for (int i = 0; i < 1000 && !std::filesystem::exists(runs.File("report.json")); ++i) {
      ::usleep(10'000);
    }
    CHECK(report()["state"] == "running");
    return TrainResult{};
  });
  CHECK(result.ok());
  CHECK(report()["state"] == "done");
  CHECK_THAT(ReadTestFile(runs.File("report.html")), Catch::StartsWith("<!DOCTYPE html>"));
}

TEST_CASE("a run without report=true writes none, and one whose report fails ends well") {
  ToyRuns runs;
  const auto run = [&] {
    const std::unique_ptr<RunRecorder> recorder = runs.Open();
    return recorder->Run([&]() -> StatusOr<TrainResult> {
      DT_RETURN_IF_ERROR(recorder->Begin({}));
      return TrainResult{};
    });
  };
  runs.config().set_report(false);
  CHECK(run().ok());
  CHECK_FALSE(std::filesystem::exists(runs.File("report.html")));
  runs.config().set_report(true);
  std::filesystem::create_directory(runs.File("report.html"));
  CHECK(run().ok());
  CHECK_THAT(runs.StatusFile(), Catch::StartsWith("state done\nexit_code 0\n"));
}

TEST_CASE("the log of a run has no lines of the next one's") {
  const TemporaryFolder folder;
  SelfCommunicator comm;
  Runtime runtime{.comm = comm, .device = {}, .mpi = "none", .arguments = {"toy"}};
  std::string terminal;
  SetLogSink([&](LogLevel, std::string_view line) { terminal += line; });
  for (const char* const name : {"one", "two"}) {
    proto::RunConfig run;
    run.set_run_dir(folder.File(name));
    const auto recorder = RunRecorder::Open("toy", run, run, runtime);
    REQUIRE(recorder.ok());
    LogWarning(std::string("from ") + name);
  }
  LogWarning("from neither");
  SetLogSink(nullptr);
  const std::string one = ReadTestFile(folder.File("one/logs/rank-00000.log"));
  const std::string two = ReadTestFile(folder.File("two/logs/rank-00000.log"));
  CHECK_THAT(one, Catch::Contains("from one") && !Catch::Contains("from two") &&
                      !Catch::Contains("from neither"));
  CHECK_THAT(two, Catch::Contains("from two") && !Catch::Contains("from one") &&
                      !Catch::Contains("from neither"));
  CHECK_THAT(terminal, Catch::Contains("from one") && Catch::Contains("from two") &&
                           Catch::Contains("from neither"));
}

// What `body` writes to stdout, or to stderr.
template <typename Body>
std::string OutputOf(const Body& body, std::FILE* stream = stdout) {
  const TemporaryFolder folder;
  std::fflush(stream);
  const int terminal = ::dup(::fileno(stream));
  const int file = ::open(folder.File("out").c_str(), O_CREAT | O_WRONLY, 0600);
  ::dup2(file, ::fileno(stream));
  body();
  std::fflush(stream);
  ::dup2(terminal, ::fileno(stream));
  ::close(file);
  ::close(terminal);
  return ReadTestFile(folder.File("out"));
}

TEST_CASE("the perplexity of a progress line is that of the nll, not of a smoothed loss") {
  ToyRuns runs;
  const auto step = [&] { runs.Open()->OnStep({.step = 1, .loss = 2.0, .nll = 1.0}); };
  CHECK_THAT(OutputOf(step, stderr), Catch::Contains("loss 2.000  ppl 2.718  "));
}

TEST_CASE("the words of a summary are the program's own, and none of another's") {
  const auto summary = [](const std::optional<RunWords>& words) {
    ToyRuns runs;
    const std::unique_ptr<RunRecorder> recorder = runs.Open();
    if (words) recorder->set_words(*words);
    return OutputOf([&] {
      CHECK(recorder->Run([]() -> StatusOr<TrainResult> { return TrainResult{}; }).ok());
    });
  };
  CHECK_THAT(summary(std::nullopt), Catch::Contains("0 updates, 0 tokens in") &&
                                        Catch::EndsWith("/run/tb\n") &&
                                        !Catch::Contains("translate"));
  CHECK_THAT(summary(RunWords{.unit = "texts", .advice = "see"}),
             Catch::Contains("0 texts in") && Catch::Contains("/run/tb\nsee ") &&
                 Catch::EndsWith("/run\n"));
}

TEST_CASE("a warning that comes again is shown once and counted") {
  ToyRuns runs;
  const std::unique_ptr<RunRecorder> recorder = runs.Open();
  std::vector<std::string> warnings;
  SetLogSink([&](LogLevel level, std::string_view line) {
    if (level >= LogLevel::kWarning) warnings.emplace_back(line);
  });
  OutputOf(
      [&] {
        for (int64_t step = 1; step <= 20; ++step) recorder->OnEvent(step, "skip", "the update");
        recorder->OnEvent(21, "checkpoint", "saved");
        recorder->OnEvent(22, "skip", "the update");
        recorder->OnEvent(23, "stop", "complete");
      },
      stderr);
  CHECK(warnings == std::vector<std::string>{"skip @1: the update",
                                             "skip: 19 more like it, the last @20",
                                             "skip @22: the update"});
}

TEST_CASE("an evaluation shows short numbers, no best of nothing, and five samples of one line") {
  ToyRuns runs;
  const std::unique_ptr<RunRecorder> recorder = runs.Open();
  EvaluationResult evaluation;
  evaluation.metrics = {{"ppl", 1.7278713280120580e57}, {"bleu", 0.0}};
  for (int i = 0; i < 7; ++i) {
    evaluation.samples.push_back({"source\x1b[2J", "reference", std::string(500, 'x')});
  }
  const auto show = [&](bool is_news) {
    return OutputOf(
        [&] {
          recorder->OnEvaluation(
              {.step = 2, .result = &evaluation, .is_best = true, .is_news = is_news});
        },
        stderr);
  };
  const std::string shown = show(false);
  CHECK_THAT(shown, Catch::StartsWith("eval @2  ppl 1.728e+57  bleu 0.00  (0.0 s)\n"));
  CHECK_THAT(show(true), Catch::StartsWith("eval @2  ppl 1.728e+57  bleu 0.00  best  (0.0 s)\n"));
  CHECK(std::count(shown.begin(), shown.end(), '\n') == 1 + 3 * 5);
  CHECK_THAT(shown,
             Catch::Contains("  source      source\\x1b[2J\n") && Catch::Contains("xx...\n"));
}

TEST_CASE("samples are written, and told of, where there are some") {
  for (const bool has_samples : {false, true}) {
    INFO(has_samples);
    ToyRuns runs;
    const std::unique_ptr<RunRecorder> recorder = runs.Open();
    EvaluationResult evaluation;
    evaluation.metrics = {{"loss", 1.0}};
    if (has_samples) evaluation.samples.push_back({"rot", "red", "red"});
    const std::string summary = OutputOf([&] {
      CHECK(recorder
                ->Run([&]() -> StatusOr<TrainResult> {
                  DT_RETURN_IF_ERROR(recorder->Begin({}));
                  recorder->OnEvaluation({.step = 2, .result = &evaluation});
                  return TrainResult{};
                })
                .ok());
    });
    CHECK(std::filesystem::exists(runs.File("samples/step-00000002.tsv")) == has_samples);
    CHECK_THAT(summary, Catch::Contains(has_samples ? "(checkpoints in ckpt/, samples in samples/)"
                                                    : "(checkpoints in ckpt/)\n"));
  }
}

TEST_CASE("the lines of a table are indented alike in the summary, and logged one by one") {
  std::string log;
  ToyRuns runs;
  const std::unique_ptr<RunRecorder> recorder = runs.Open();
  SetLogSink([&](LogLevel, std::string_view line) { log += "<" + std::string(line) + ">"; });
  EvaluationResult evaluation;
  evaluation.metrics = {{"loss", 1.0}};
  evaluation.notes = {"signature", "dev:\na  b\n c  d\n"};
  const std::string summary = OutputOf([&] {
    CHECK(recorder
              ->Run([&]() -> StatusOr<TrainResult> {
                DT_RETURN_IF_ERROR(recorder->Begin({}));
                recorder->OnEvaluation({.step = 2, .result = &evaluation});
                TrainResult result;
                result.last_evaluation = evaluation;
                return result;
              })
              .ok());
  });
  CHECK_THAT(log, Catch::Contains("<signature><dev:><a  b>< c  d>"));
  CHECK_THAT(summary, Catch::Contains("dev        loss 1.0000\n"
                                      "           signature\n"
                                      "           dev:\n"
                                      "           a  b\n"
                                      "            c  d\n"
                                      "run "));
}

TEST_CASE("a preparation that fails is told with its reason") {
  ToyRuns runs;
  {
    const std::unique_ptr<RunRecorder> recorder = runs.Open();
    const StatusOr<TrainResult> result =
        recorder->Run([]() -> StatusOr<TrainResult> { return DataError("a.tsv:3:\nbad"); });
    CHECK(result.status().code() == ExitCode::kData);
    CHECK_THAT(runs.StatusFile(), Catch::StartsWith("state failed\nexit_code 3\nstep 0\n"));
    CHECK_THAT(runs.StatusFile(), Catch::EndsWith("\nmessage a.tsv:3: bad\n"));
  }
  const std::unique_ptr<RunRecorder> recorder = runs.Open();
  CHECK_THAT(runs.StatusFile(), Catch::StartsWith("state preparing\nexit_code 0\n"));
  CHECK(runs.StatusFile().find("message") == std::string::npos);
  CHECK_THROWS_AS(recorder->Run([]() -> StatusOr<TrainResult> { throw std::bad_alloc(); }),
                  std::bad_alloc);
  CHECK_THAT(runs.StatusFile(), Catch::StartsWith("state failed\nexit_code 5\n"));
}

TEST_CASE("another program does not take a run's folder, nor say that it failed") {
  ToyRuns runs;
  {
    const std::unique_ptr<RunRecorder> recorder = runs.Open();
    REQUIRE(recorder
                ->Run([&]() -> StatusOr<TrainResult> {
                  DT_RETURN_IF_ERROR(recorder->Begin({}));
                  return TrainResult{};
                })
                .ok());
  }
  const std::string status = runs.StatusFile();
  const Status refused = runs.OpenAs("other");
  CHECK(refused.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(refused.message()), Catch::Contains("is a run of toy, and this is other"));
  CHECK(runs.StatusFile() == status);
}

TEST_CASE("a run that goes on is preparing at the step of its last checkpoint") {
  ToyRuns runs;
  { const std::unique_ptr<RunRecorder> first = runs.Open(); }
  for (const int step : {5, 12}) {
    std::filesystem::create_directories(runs.File("ckpt/" + CheckpointName(step)));
  }
  const std::unique_ptr<RunRecorder> recorder = runs.Open();
  CHECK_THAT(runs.StatusFile(), Catch::StartsWith("state preparing\nexit_code 0\nstep 12\n"));
}

TEST_CASE("a program's own configuration is written as given, and told where it changes") {
  const TemporaryFolder folder;
  SelfCommunicator comm;
  Runtime runtime{.comm = comm, .device = {}, .mpi = "none", .arguments = {"toy"}};
  const auto run = [&](const std::string& config, int64_t restored) {
    const std::unique_ptr<RunRecorder> recorder = *RunRecorder::Open(
        "toy",
        {.run_dir = folder.File("run"), .progress = ProgressStyle::kNone, .tensorboard = false},
        config, runtime);
    SetLogSink([](LogLevel, std::string_view) {});  // its file goes with the folder
    EvaluationResult evaluation;
    evaluation.metrics = {{"loss", 1.0}};
    const std::string summary = OutputOf([&] {
      const auto result = recorder->Run([&]() -> StatusOr<TrainResult> {
        TrainState state;
        state.step = restored;
        DT_RETURN_IF_ERROR(recorder->Begin(state));
        recorder->OnStep({.step = restored + 1});
        recorder->OnEvaluation({.step = restored + 1, .result = &evaluation});
        return TrainResult{};
      });
      CHECK(result.ok());
    });
    SetLogSink(nullptr);
    CHECK_THAT(summary, Catch::Contains("\nrun ") && !Catch::Contains("tensorboard"));
  };
  run("layers: 2\nrate: 0.5\n", 0);
  CHECK(ReadTestFile(folder.File("run/config.txt")) == "layers: 2\nrate: 0.5\n");
  CHECK_FALSE(std::filesystem::exists(folder.File("run/config.textproto")));
  const auto events = [&] { return ReadTestFile(folder.File("run/metrics/events.jsonl")); };
  run("layers: 2\nrate: 0.5\n", 1);
  CHECK(events().find("settings differ") == std::string::npos);
  run("layers: 2\nrate: 0.25\n", 2);
  CHECK_THAT(events(),
             Catch::Contains("settings differ from here on: rate: 0.25 (before: rate: 0.5)"));
  CHECK(ReadTestFile(folder.File("run/config.txt")) == "layers: 2\nrate: 0.25\n");
  CHECK_FALSE(std::filesystem::exists(folder.File("run/tb")));
}

}  // namespace
}  // namespace dtrain
