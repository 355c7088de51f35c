// run_training_test.cc - a run from its task to its end, as programs of one's own have it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/run_training.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/self_communicator.h"
#include "dtrain/report/row_intervals.h"
#include "dtrain/run.pb.h"
#include "dtrain/runs/row_values.h"
#include "testing/catch.h"
#include "testing/tiny_task.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

// Runs in one folder, of a task on generated text.
class ToyRuns {
 public:
  ToyRuns() {
    run_.set_run_dir(folder_.File("run"));
    run_.set_progress(proto::RunConfig::none);
  }
  ~ToyRuns() { SetLogSink(nullptr); }

  RunTrainingOptions Options(int64_t updates) const {
    RunTrainingOptions options{.trainer = MakeToyRun(corpus_).trainer};
    options.trainer.max_steps = updates;
    options.trainer.checkpoint_dir = File("ckpt");
    options.trainer.best_metric = "loss";
    return options;
  }
  StatusOr<TrainResult> Run(const RunTrainingOptions& options) {
    SelfCommunicator comm;
    Runtime runtime{.comm = comm, .device = {}, .mpi = "none", .arguments = {"toy"}};
    DT_ASSIGN_OR_RETURN(const std::unique_ptr<RunRecorder> recorder,
                        RunRecorder::Open("toy", run_, run_, runtime));
    SetLogSink([](LogLevel, std::string_view) {});  // its file goes with the folder
    return recorder->Run([&]() -> StatusOr<TrainResult> {
      DT_ASSIGN_OR_RETURN(const std::unique_ptr<TranslationTask> task,
                          TranslationTask::Create(MakeToyRun(corpus_).task, comm));
      return RunTraining(*task, options, *recorder, runtime);
    });
  }
  std::string File(const std::string& name) const { return folder_.File("run/" + name); }
  proto::RunConfig& config() { return run_; }

 private:
  ToyCorpus corpus_;
  TemporaryFolder folder_;
  proto::RunConfig run_;
};

TEST_CASE("a run is prepared, trained to its end, and goes on from there") {
  ToyRuns runs;
  RunTrainingOptions options = runs.Options(2);
  options.memory = "some of it";
  int prepared = 0;
  options.prepare = [&] {
    ++prepared;
    CHECK_FALSE(std::filesystem::exists(runs.File("metrics/steps.jsonl")));
    return OkStatus();
  };
  const auto first = runs.Run(options);
  INFO(std::string(first.status().message()));
  REQUIRE(first.ok());
  CHECK(prepared == 1);
  CHECK(first->reason == EndReason::kMaxSteps);
  CHECK(first->state.step == 2);
  CHECK_THAT(ReadTestFile(runs.File("STATUS")), Catch::StartsWith("state done\n"));
  const auto events = [&] { return ReadTestFile(runs.File("metrics/events.jsonl")); };
  CHECK_THAT(events(), Catch::Contains("\"kind\":\"memory\",\"text\":\"some of it\""));

  const auto second = runs.Run(runs.Options(3));
  REQUIRE(second.ok());
  CHECK(second->state.step == 3);
  CHECK_THAT(events(), Catch::Contains("\"step\":2,\"kind\":\"resume\""));
  RunTrainingOptions anew = runs.Options(3);
  anew.resume = runs.File("none");
  CHECK(runs.Run(anew).status().code() == ExitCode::kUsage);
}

// The records of a stream, without the line of its schema.
std::vector<nlohmann::json> RecordsOf(const ToyRuns& runs, const std::string& stream) {
  std::istringstream lines(ReadTestFile(runs.File("metrics/" + stream + ".jsonl")));
  std::vector<nlohmann::json> records;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) records.push_back(nlohmann::json::parse(line));
  return records;
}

// The files of TensorBoard in a folder; names of curves stand in them as they are.
std::string CurvesIn(const std::string& folder) {
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    text += ReadTestFile(entry.path().string());
  }
  return text;
}

RunTrainingOptions OfTwentyUpdates(const ToyRuns& runs) {
  RunTrainingOptions options = runs.Options(20);
  options.trainer.log_every = 1;
  options.trainer.eval_every = {PeriodUnit::kUpdates, 10};
  return options;
}

TEST_CASE("a run records what its report needs: samples, values per row, phases and norms") {
  ToyRuns runs;
  REQUIRE(runs.Run(OfTwentyUpdates(runs)).ok());
  const std::vector<nlohmann::json> evaluations = RecordsOf(runs, "eval");
  REQUIRE(evaluations.size() == 2);
  for (const nlohmann::json& record : evaluations) {
    CHECK(record["train_sample_nll"].get<double>() > 0.0);
  }
  for (const char* const which : {"last", "previous"}) {
    INFO(which);
    const StatusOr<RowValues> rows = ReadRowValues(RowValuesPath(runs.File(""), which));
    REQUIRE(rows.ok());
    const nlohmann::json& record = evaluations[std::string(which) == "last" ? 1 : 0];
    CHECK(rows->step == record["step"].get<int64_t>());
    for (const char* const metric : {"nll", "bleu", "chrf"}) {
      INFO(metric);
      const std::optional<Interval> interval = IntervalOf(*rows, metric);
      REQUIRE(interval);
      CHECK(interval->value == Approx(record[metric].get<double>()).epsilon(1e-5));
    }
  }
  double forward = 0.0;
  double seconds = 0.0;
  for (const nlohmann::json& record : RecordsOf(runs, "ranks")) {
    REQUIRE(record["forward"].size() == 1);
    forward += record["forward"][0].get<double>();
    for (const char* const phase : {"data", "forward", "backward", "exchange", "update"}) {
      seconds += record[phase][0].get<double>();
    }
  }
  CHECK(forward > 0.0);
  CHECK(seconds <= RecordsOf(runs, "steps").back()["seconds"].get<double>());
  const std::vector<nlohmann::json> norms = RecordsOf(runs, "norms");
  REQUIRE(norms.size() == 2);
  double squares = 0.0;
  for (const auto& [group, values] : norms.back()["groups"].items()) {
    INFO(group);
    squares += std::pow(values[0].get<double>(), 2.0);
    CHECK(values[1].get<double>() > 0.0);
    CHECK(values[2].get<double>() > 0.0);
  }
  CHECK(std::sqrt(squares) ==
        Approx(RecordsOf(runs, "steps").back()["grad_norm"].get<double>()).epsilon(1e-6));
  CHECK(std::filesystem::exists(runs.File("report.html")));
  CHECK_THAT(CurvesIn(runs.File("tb/eval")), Catch::Contains("eval/train_sample_nll"));
  CHECK_THAT(CurvesIn(runs.File("tb/train")),
             Catch::Contains("update_share/model.encoder.layers.0.attention"));
}

TEST_CASE("recording changes no weight, and leaves out what is turned off") {
  const auto weights = [](bool records) {
    ToyRuns runs;
    runs.config().set_details(records);
    runs.config().set_report(records);
    runs.config().set_sample_seconds(records ? 5.0F : 0.0F);
    REQUIRE(runs.Run(OfTwentyUpdates(runs)).ok());
    CHECK(std::filesystem::exists(runs.File("report.html")) == records);
    CHECK(std::filesystem::exists(runs.File("metrics/host.jsonl")) == records);
    CHECK(std::filesystem::exists(RowValuesPath(runs.File(""), "last")) == records);
    CHECK(RecordsOf(runs, "norms").empty() == !records);
    CHECK(RecordsOf(runs, "eval").back().contains("train_sample_nll") == records);
    return ReadTestFile(runs.File("ckpt/step-00000020/model.safetensors"));
  };
  CHECK(weights(true) == weights(false));
}

TEST_CASE("a run whose preparation fails writes no configuration") {
  ToyRuns runs;
  RunTrainingOptions options = runs.Options(2);
  options.prepare = [] { return DataError("prepared"); };
  CHECK(runs.Run(options).status().code() == ExitCode::kData);
  options.trainer.shard_optimizer = true;
  CHECK(runs.Run(options).status().code() == ExitCode::kData);
  CHECK_FALSE(std::filesystem::exists(runs.File("config.textproto")));
}

TEST_CASE("ranks with other data are told before anything is prepared") {
  const TemporaryFolder folder;
  const ToyCorpus here(240, 6, /*seed=*/1);
  const ToyCorpus there(240, 6, /*seed=*/2, here.path() + "/vocab.spm");
  const auto run = [&](int same_up_to) {
    return testing::RunRanks(2, [&](Communicator& comm) -> std::string {
      Runtime runtime{.comm = comm, .device = {}, .mpi = "none", .arguments = {"toy"}};
      proto::RunConfig config;
      config.set_run_dir(folder.File("run"));
      config.set_progress(proto::RunConfig::none);
      const auto recorder = RunRecorder::Open("toy", config, config, runtime);
      if (!recorder.ok()) return std::string(recorder.status().message());
      const ToyRun toy = MakeToyRun(comm.rank() <= same_up_to ? here : there);
      auto task = TranslationTask::Create(toy.task, comm);
      if (!task.ok()) return std::string(task.status().message());
      const Status status =
          RunTraining(
              **task,
              {.agreement = {{"word", same_up_to == 1 ? absl::StrCat("of ", comm.rank()) : ""}},
               .trainer = toy.trainer,
               .prepare = [] { return DataError("prepared"); }},
              **recorder, runtime)
              .status();
      return std::string(status.message());
    });
  };
  for (const std::string& message : run(/*same_up_to=*/0)) {
    CHECK_THAT(message, Catch::Contains("disagree on data") && Catch::Contains("rank 1"));
  }
  for (const std::string& message : run(/*same_up_to=*/1)) {
    CHECK_THAT(message, Catch::Contains("disagree on word") && Catch::Contains("of 1"));
  }
  SetLogSink(nullptr);
}

// A run of a task of one's own, on this rank; `ran` is called where it went to the end.
template <typename Ran>
Status RunTiny(testing::TinyTask& task, const RunTrainingOptions& options,
               const std::string& run_dir, Communicator& comm, const Ran& ran) {
  Runtime runtime{.comm = comm, .device = {}, .mpi = "none", .arguments = {"toy"}};
  proto::RunConfig config;
  config.set_run_dir(run_dir);
  config.set_progress(proto::RunConfig::none);
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<RunRecorder> recorder,
                      RunRecorder::Open("toy", config, config, runtime));
  SetLogSink([](LogLevel, std::string_view) {});  // its file goes with the folder
  DT_RETURN_IF_ERROR(
      recorder->Run([&] { return RunTraining(task, options, *recorder, runtime); }).status());
  ran();
  return OkStatus();
}

TEST_CASE("ranks draw dropout of their own, whatever rank the options say") {
  const TemporaryFolder folder;
  const std::vector<uint64_t> seeds = testing::RunRanks(3, [&](Communicator& comm) {
    testing::TinyTask task;
    uint64_t seed = 0;
    const Status status =
        RunTiny(task, {.trainer = {.max_steps = 1}, .context = {.seed = 5}}, folder.File("run"),
                comm, [&] { seed = task.dropout_key().seed; });
    return status.ok() ? seed : 0;
  });
  SetLogSink(nullptr);
  CHECK(seeds[0] == 5);
  CHECK(seeds[1] != seeds[0]);
  CHECK(seeds[2] != seeds[0]);
  CHECK(seeds[2] != seeds[1]);
  CHECK(seeds[1] != 0);
  CHECK(seeds[2] != 0);
}

TEST_CASE("a task that cannot be trained so is refused before anything is prepared") {
  const TemporaryFolder folder;
  SelfCommunicator comm;
  RunTrainingOptions options{.trainer = {.max_steps = 1},
                             .prepare = [] { return DataError("prepared"); }};
  const auto run = [&](const testing::TinyTaskOptions& task_options) {
    testing::TinyTask task(task_options);
    return RunTiny(task, options, folder.File("run"), comm, [] {});
  };
  CHECK_THROWS_WITH(run({.allocate = false}), Catch::Contains("Allocate() comes first"));
  CHECK(run({}).code() == ExitCode::kData);
  options.context.compute_type = DType::kBFloat16;
  CHECK_THROWS_WITH(run({}), Catch::Contains("computes in bfloat16"));
  CHECK(run({.compute_type = DType::kBFloat16}).code() == ExitCode::kData);
  options.trainer.max_steps = 0;
  CHECK(run({.compute_type = DType::kBFloat16}).code() == ExitCode::kUsage);
  SetLogSink(nullptr);
}

}  // namespace
}  // namespace dtrain
