// run_facts_test.cc - a run directory is read whole, and any part of it may be missing or damaged.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/run_facts.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <string>

#include "dtrain/report/internal/record_parser.h"
#include "report/made_up_run.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

bool HasRemark(const RunFacts& run, const std::string& part) {
  for (const std::string& remark : run.remarks) {
    if (remark.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST_CASE("a run's records, settings and surroundings are read") {
  const TemporaryFolder folder;
  const MadeUpRun made(folder.File("mine"));
  made.Write();
  fs::create_directories(folder.File("mine/samples"));
  WriteTestFile(folder.File("mine/samples/step-00000080.tsv"), "a\nold\n");
  WriteTestFile(folder.File("mine/samples/step-00000400.tsv"),
                "source\treference\na\\tb\\\\\tc\\nd\n");
  const StatusOr<RunFacts> read = ReadRun(folder.File("mine"));
  REQUIRE(read.ok());
  const RunFacts& run = *read;
  CHECK(run.name == "mine");
  REQUIRE(run.steps.size() == 40);
  CHECK(run.steps.back().step == 400);
  CHECK(run.steps.back().loss == Approx(MadeUpRun::Loss(400)));
  CHECK(run.steps.back().comm_share == Approx(0.02));
  CHECK(run.seconds() == Approx(40.0));
  REQUIRE(run.evaluations.size() == 10);
  CHECK(run.evaluations[1].Metric("bleu") == Approx(60.0 - 12.0 * MadeUpRun::Loss(80)));
  CHECK(std::isnan(run.evaluations[1].Metric("accuracy")));
  CHECK(run.evaluations[1].is_best);
  REQUIRE(run.events.size() == 3);
  CHECK(run.events[2].text == "the run is complete: max_steps");
  CHECK(run.status.state == "done");
  CHECK(run.status.heartbeat == Approx(1769861400.5).epsilon(1e-12));
  REQUIRE(run.starts.size() == 1);
  CHECK(run.starts[0].command == "nmt_train --run_dir=r");
  CHECK(run.Environment("ranks") == "2");
  CHECK(run.Setting("optimizer.schedule") == "inverse_sqrt");
  CHECK(run.Setting("data.source_language") == "en");
  CHECK(run.Number("trainer.max_steps") == 400.0);
  CHECK(std::isnan(run.Number("optimizer.schedule")));
  CHECK(run.samples.step == 400);
  REQUIRE(run.samples.rows.size() == 1);
  CHECK(run.samples.rows[0] == std::vector<std::string>{"a\tb\\", "c\nd"});
  CHECK(HasRemark(run, "There is no checkpoint."));
}

TEST_CASE("a line cut in the middle is left out, and a remark says so") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("cut"));
  made.steps += "{\"step\":410,\"epo";
  const StatusOr<RunFacts> run = ReadRun(made.Write());
  REQUIRE(run.ok());
  CHECK(run->steps.size() == 40);
  CHECK(HasRemark(*run, "metrics/steps.jsonl: 1 line could not be read; the last one is cut."));
}

TEST_CASE("of updates that were made twice the later records count") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("again"));
  made.steps += MadeUpRun::Step(390, 7.0) + MadeUpRun::Step(400, 8.0);
  const StatusOr<RunFacts> run = ReadRun(made.Write());
  REQUIRE(run.ok());
  REQUIRE(run->steps.size() == 40);
  CHECK(run->steps.back().loss == 8.0);
  CHECK(HasRemark(*run, "2 lines of updates that were made again"));
}

TEST_CASE("time and tokens never go back, even if a clock did") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("clock"));
  made.steps += "{\"step\":410,\"loss\":null,\"seconds\":-1e300,\"target_tokens\":5}\n";
  made.steps += "{\"step\":420}\n";
  const StatusOr<RunFacts> run = ReadRun(made.Write());
  REQUIRE(run.ok());
  REQUIRE(run->steps.size() == 42);
  CHECK(run->steps[40].seconds == Approx(40.0));
  CHECK(run->steps[41].target_tokens == 400000.0);
  CHECK(std::isnan(run->steps[40].loss));
}

TEST_CASE("a run without any one of its files is read, and the file is named") {
  const TemporaryFolder folder;
  const std::array names = {"STATUS",
                            "cmdline.txt",
                            "env.json",
                            "config.textproto",
                            "metrics/steps.jsonl",
                            "metrics/eval.jsonl",
                            "metrics/events.jsonl"};
  for (const char* const name : names) {
    INFO(name);
    const std::string path = folder.File(std::string("no-") + fs::path(name).stem().string());
    const MadeUpRun made(path);
    made.Write();
    fs::remove(path + "/" + name);
    const StatusOr<RunFacts> run = ReadRun(path);
    REQUIRE(run.ok());
    CHECK(HasRemark(*run, std::string(name) + " is missing."));
  }
}

TEST_CASE("a run of which any file ends anywhere is read") {
  const TemporaryFolder folder;
  const std::string path = folder.File("cut");
  const MadeUpRun made(path);
  for (const char* const name : {"STATUS", "cmdline.txt", "env.json", "config.textproto",
                                 "metrics/steps.jsonl", "metrics/eval.jsonl"}) {
    made.Write();
    const std::string file = path + "/" + name;
    const std::string whole = ReadTestFile(file);
    const size_t stride = whole.size() > 2000 ? 97 : 7;
    for (size_t size = 0; size < whole.size(); size += stride) {
      INFO(name << " of " << size << " bytes");
      WriteTestFile(file, whole.substr(0, size));
      const StatusOr<RunFacts> run = ReadRun(path);
      REQUIRE(run.ok());
      if (std::string(name) != "metrics/steps.jsonl") CHECK(run->steps.size() == 40);
    }
    WriteTestFile(file, whole);
  }
}

TEST_CASE("records of a newer version are an error that names both versions") {
  const TemporaryFolder folder;
  const MadeUpRun made(folder.File("newer"));
  made.Write();
  WriteTestFile(folder.File("newer/metrics/eval.jsonl"),
                "{\"schema\":\"dtrain.eval\",\"version\":2}\n");
  const StatusOr<RunFacts> run = ReadRun(folder.File("newer"));
  REQUIRE_FALSE(run.ok());
  CHECK(run.status().code() == ExitCode::kData);
  CHECK_THAT(run.status().message(),
             Catch::Contains("records of version 2; this dtrain reads up to version 1"));
}

TEST_CASE("a folder that holds no run is an error") {
  const TemporaryFolder folder;
  const StatusOr<RunFacts> run = ReadRun(folder.path());
  REQUIRE_FALSE(run.ok());
  CHECK(run.status().code() == ExitCode::kData);
  CHECK_THAT(run.status().message(), Catch::Contains("holds no run"));
}

TEST_CASE("what preparation found is read by set and language") {
  const auto facts = internal::ParsePreparation(R"({
    "cleaning": {"pairs_read": 100, "pairs_kept": 60,
                 "dropped": {"copy": {"pairs": 40, "examples": []}, "long_word": {"pairs": 0}}},
    "sets": {"train": {"pairs": 60, "cut_pairs": 9,
                       "source": {"words": 500, "pieces_per_word": 1.5, "unknown_rate": 0.02},
                       "target": 7}}})");
  REQUIRE(facts.has_value());
  CHECK(facts->pairs_kept == 60.0);
  REQUIRE(facts->dropped.size() == 1);
  CHECK(facts->dropped[0].first == "copy");
  const SetFacts* const train = facts->Find("train");
  REQUIRE(train != nullptr);
  CHECK(train->source.unknown_rate == 0.02);
  CHECK(std::isnan(train->target.words));
  CHECK(facts->Find("dev") == nullptr);
  CHECK_FALSE(internal::ParsePreparation("[1").has_value());
}

TEST_CASE("records may hold anything where a number or a text is expected") {
  std::vector<StepFacts> steps;
  const internal::StreamProblems problems = internal::ParseSteps(
      "[]\n7\nnull\n{}\n\n{\"step\":\"x\"}\n{\"step\":1e300}\n{\"step\":-3}\n"
      "{\"step\":5,\"loss\":[1],\"lr\":{},\"seconds\":\"late\"}\n",
      steps);
  CHECK(problems.unread_lines == 3);
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].step == 5);
  CHECK(std::isnan(steps[0].loss));
  std::vector<EventFacts> events;
  internal::ParseEvents("{\"step\":5,\"kind\":3,\"text\":null}\n", events);
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind.empty());
  CHECK(ParseSettings("}\n}\na {\n b {\n c: \"\"\n").back() ==
        std::pair<std::string, std::string>("a.b.c", ""));
  CHECK(std::isnan(internal::ParseTime("yesterday")));
  const RunFacts odd{.settings = {{"a", "inf"}, {"b", "nan"}, {"c", "-infinity"}, {"d", "1e3"}}};
  for (const char* const key : {"a", "b", "c", "none"}) CHECK(std::isnan(odd.Number(key)));
  CHECK(odd.Number("d") == 1000.0);
}

}  // namespace
}  // namespace dtrain
