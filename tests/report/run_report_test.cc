// run_report_test.cc - one analysis of a run, as verdicts, answers, JSON and text.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/run_report.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "dtrain/formats/safetensors.h"
#include "dtrain/runs/row_values.h"
#include "report/made_up_run.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

// A minute after the run of made_up_run.h ended.
constexpr double kNow = 1769861460.0;

RunReport ReportOf(const std::string& path, double now = kNow) {
  StatusOr<RunFacts> run = ReadRun(path);
  REQUIRE(run.ok());
  return MakeReport(*std::move(run), {.now = now});
}

const Verdict& Find(const RunReport& report, const std::string& id) {
  for (const Verdict& verdict : report.verdicts) {
    if (verdict.id == id) return verdict;
  }
  FAIL("no verdict " << id);
  return report.verdicts.front();
}

std::string AnswerTo(const RunReport& report, const std::string& part) {
  for (const Answer& answer : report.answers) {
    if (answer.question.find(part) != std::string::npos) return answer.text;
  }
  return "";
}

// Ten records of 10 s each, in which rank 1 works 2 s longer than rank 0, and the network takes 1
// s.
std::string PhaseRecords() {
  std::string text = "{\"schema\":\"dtrain.ranks\",\"version\":1}\n";
  for (int i = 1; i <= 10; ++i) {
    JsonRecord record;
    record.Set(recorded::kStep, 40 * i).Set(recorded::kSeconds, 10.0);
    for (const std::string_view name : recorded::kPhaseNames) {
      std::array<double, 2> by_rank = {0.0, 0.0};
      if (name == "data") by_rank = {0.1, 0.6};
      if (name == "forward") by_rank = {3.0, 4.0};
      if (name == "backward") by_rank = {3.0, 4.0};
      if (name == "exchange") by_rank = {3.0, 1.0};
      record.SetList(name, by_rank);
    }
    text += record.ToString() + "\n";
  }
  return text;
}

TEST_CASE("with the times of all ranks the network is told from a slow rank") {
  const TemporaryFolder folder;
  const std::string path = MadeUpRun(folder.File("run")).Write();
  WriteTestFile(RecordsPath(path, recorded::kPhases), PhaseRecords());
  const RunReport report = ReportOf(path);
  CHECK(report.numbers.common_wait_share == Approx(0.1));
  CHECK_THAT(Find(report, "network").evidence, Catch::Contains("Rank 0 waited 30 %"));
  CHECK(report.numbers.slow_share == Approx(0.25));
  CHECK(report.numbers.slow_rank == 1);
  CHECK(Find(report, "slow").title == "Rank 1 is slow");
  CHECK(Name(Find(report, "slow").level) == "bad");
  CHECK(Find(report, "network").title == "The network costs time");
  CHECK_THAT(Find(report, "data").text, Catch::Contains("6.0 % of the time of updates rank 1"));
  // Records of another number of ranks, and damaged ones, do not count.
  WriteTestFile(RecordsPath(path, recorded::kPhases),
                PhaseRecords() + R"({"step":500,"seconds":1,"start":[1,2,3]})" + "\n{\"step\":");
  CHECK(Find(ReportOf(path), "slow").title == "Rank 1 is slow");
}

TEST_CASE("with values per row the noise is measured, and with a training sample the gap is") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  size_t at = 0;
  while ((at = made.evaluations.find("\"bleu\"", at)) != std::string::npos) {
    made.evaluations.insert(at, "\"train_sample_nll\":1.25,");
    at += 40;
  }
  const std::string path = made.Write();
  const auto write = [&](const char* which, int64_t step, float nll) {
    RowValues rows{.step = step};
    std::vector<float> sums;
    RowValues::Column bleu{.name = std::string(kBleuColumn), .width = 10};
    for (int i = 0; i < 200; ++i) {
      rows.rows.push_back(i);
      sums.push_back(nll * 10.0F + 0.01F * static_cast<float>(i % 7));
      const float hits = 4.0F + static_cast<float>(i % 3);
      for (const float count :
           {10.0F, 10.0F, hits, hits - 1, hits - 2, hits - 3, 10.0F, 9.0F, 8.0F, 7.0F}) {
        bleu.values.push_back(count);
      }
    }
    rows.AddRatio("nll", sums, std::vector<float>(200, 10.0F));
    rows.columns.push_back(bleu);
    REQUIRE(WriteRowValues(RowValuesPath(path, which), rows).ok());
  };
  write("previous", 360, 2.6F);
  write("last", 400, 2.5F);
  const RunReport report = ReportOf(path);
  REQUIRE(report.numbers.score);
  CHECK(report.numbers.loss_difference_error < 0.001);
  CHECK_THAT(ScoreText(report), Catch::Contains(" ± "));
  CHECK_THAT(Find(report, "trained").evidence, !Catch::Contains("not recorded"));
  CHECK(Find(report, "trained").sure == Sureness::kLikely);
  CHECK(Find(report, "overfit").number == "gap 1.25");
  CHECK(Find(report, "overfit").sure == Sureness::kMeasured);
  CHECK_THAT(Find(report, "noise").evidence, Catch::Contains("95 %"));
  // Values of an update that is no evaluation are of a run before a restart.
  write("last", 440, 2.5F);
  CHECK_FALSE(ReportOf(path).numbers.score);
  WriteTestFile(RowValuesPath(path, "last"), "damaged");
  const RunReport damaged = ReportOf(path);
  CHECK_FALSE(damaged.numbers.score);
  CHECK_THAT(damaged.run.remarks.back() + damaged.run.remarks.front(),
             Catch::Contains("rows-last"));
}

TEST_CASE("how far updates move the weights of layers decides on the rate") {
  const TemporaryFolder folder;
  const std::string path = MadeUpRun(folder.File("run")).Write();
  const auto write = [&](double moved) {
    const std::array<double, 3> warm_up = {1.0, 1.0, 0.5};
    const std::array<double, 3> layer = {1.0, 1.0, moved};
    const std::array<double, 3> table = {1.0, 1.0, 1e-9};
    std::string text = "{\"schema\":\"dtrain.norms\",\"version\":1}\n";
    for (const int step : {20, 200, 300}) {
      JsonRecord groups;
      groups.SetList("model.layers.0.attention", step == 20 ? warm_up : layer);
      groups.SetList("model.shared", table);
      text +=
          JsonRecord().Set(recorded::kStep, step).Set(recorded::kGroups, groups).ToString() + "\n";
    }
    WriteTestFile(RecordsPath(path, recorded::kNorms), text);
  };
  write(1e-3);
  CHECK(ReportOf(path).numbers.update_share == Approx(1e-3));
  CHECK(Name(Find(ReportOf(path), "rate").level) == "good");
  write(0.02);
  CHECK(Name(Find(ReportOf(path), "rate").level) == "warn");
}

TEST_CASE("the numbers of a run follow from its records") {
  const TemporaryFolder folder;
  const MadeUpRun made(folder.File("run"));
  const RunReport report = ReportOf(made.Write());
  const RunNumbers& numbers = report.numbers;
  CHECK(numbers.ranks == 2);
  CHECK(numbers.step_ms == Approx(100.0));
  CHECK(numbers.data_share == Approx(0.01));
  CHECK(numbers.comm_share == Approx(0.02));
  CHECK(numbers.tokens_per_second == Approx(10000.0));
  CHECK(numbers.checkpoints == 1.0);
  CHECK(numbers.checkpoint_seconds == Approx(0.25));
  CHECK(numbers.evaluation_seconds == Approx(5.0));
  CHECK(numbers.wall_seconds == Approx(45.0));
  CHECK(numbers.warmup_updates == 40.0);
  CHECK(numbers.is_complete);
  CHECK(numbers.end_reason == "max_steps");
  CHECK(numbers.loss_key == "nll");
  CHECK(report.metric.name == "BLEU");
  CHECK(report.metric.scale == 1.0);
}

TEST_CASE("the worst verdicts come first, and rules without records say what is missing") {
  const TemporaryFolder folder;
  const MadeUpRun made(folder.File("run"));
  const RunReport report = ReportOf(made.Write());
  for (size_t i = 1; i < report.verdicts.size(); ++i) {
    CHECK(report.verdicts[i - 1].level <= report.verdicts[i].level);
  }
  CHECK(Find(report, "finished").level == VerdictLevel::kGood);
  // The loss falls like a power without noise: more training certainly helps.
  const Verdict& trained = Find(report, "trained");
  CHECK(trained.level == VerdictLevel::kWarn);
  CHECK_THAT(trained.change, Catch::Contains("trainer.max_steps=600"));
  CHECK(trained.sure == Sureness::kHint);
  CHECK_THAT(Find(report, "device").text, Catch::StartsWith("Not recorded: "));
  CHECK_THAT(Find(report, "slow").text, Catch::StartsWith("Not recorded: "));
}

TEST_CASE("shares of records of unequal numbers of updates are weighted") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  made.steps = "{\"step\":10,\"data_share\":0.5}\n{\"step\":100,\"data_share\":0.0}\n";
  CHECK(ReportOf(made.Write()).numbers.data_share == Approx(0.05));
}

TEST_CASE("a classifier's accuracy is shown in percent, a loss as it is") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  made.evaluations.clear();
  for (int step = 40; step <= 400; step += 40) {
    made.evaluations += "{\"step\":" + std::to_string(step) +
                        ",\"loss\":0.3,\"accuracy\":0.875,\"is_best\":false,\"seconds\":0.1}\n";
  }
  made.Write();
  const std::string config = folder.File("run/config.textproto");
  WriteTestFile(config, "trainer {\n  best_metric: \"accuracy\"\n}\n");
  CHECK(ScoreText(ReportOf(folder.File("run"))) == "87.5 accuracy in %");
  WriteTestFile(config, "trainer {\n  best_metric: \"f1\"\n}\n");
  const RunReport by_loss = ReportOf(folder.File("run"));
  CHECK(ScoreText(by_loss) == "0.300 loss");
  CHECK_FALSE(by_loss.metric.is_larger_better);
}

TEST_CASE("whether a score is a share is told by its name, not by its values") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  made.evaluations =
      "{\"step\":40,\"loss\":0.3,\"bleu\":0.4,\"f1\":0.5,\"exact_match\":0.6,\"matthews\":-0.25,"
      "\"mine\":0.125}\n";
  made.Write();
  const auto score = [&](const std::string& program, const std::string& metric) {
    WriteTestFile(folder.File("run/env.json"), "{\"program\":\"" + program + "\"}");
    WriteTestFile(folder.File("run/config.textproto"),
                  "trainer {\n  best_metric: \"" + metric + "\"\n}\n");
    return ScoreText(ReportOf(folder.File("run")));
  };
  CHECK(score("nmt_train", "bleu") == "0.4 BLEU");
  CHECK(score("bert_squad", "f1") == "0.5 F1");
  CHECK(score("bert_squad", "exact_match") == "0.6 exact match");
  CHECK(score("bert_classify", "f1") == "50.0 F1 in %");
  CHECK(score("bert_classify", "matthews") == "-25.0 matthews in %");
  CHECK(score("custom_trainer", "mine") == "0.125 mine");
}

// A checkpoint of a model of 1,000 elements, of which so many are trained; 0: no optimizer's state.
void WriteCheckpoint(const std::string& path, int64_t trained) {
  const std::vector<float> zeros(1000, 0.0F);
  const auto tensor = [&](const std::string& name, int64_t elements) {
    return NamedTensor{
        .name = name,
        .shape = {elements},
        .data = std::as_bytes(std::span(zeros).first(static_cast<size_t>(elements)))};
  };
  std::filesystem::create_directories(path);
  const std::array model = {tensor("model.a", 900), tensor("model.b", 100)};
  REQUIRE(WriteSafetensors(path + "/model.safetensors", model).ok());
  std::filesystem::remove(path + "/optimizer.safetensors");
  if (trained == 0) return;
  const std::array moments = {tensor("m.model.b", trained), tensor("v.model.b", trained)};
  REQUIRE(WriteSafetensors(path + "/optimizer.safetensors", moments).ok());
}

TEST_CASE("the traffic is that of the trained parameters, not of frozen ones") {
  const TemporaryFolder folder;
  const MadeUpRun made(folder.File("run"));
  made.Write();
  const std::string checkpoint = folder.File("run/ckpt/step-00000400");
  WriteCheckpoint(checkpoint, 10);
  RunReport report = ReportOf(folder.File("run"));
  CHECK(report.numbers.bytes_each_way == 40.0);
  CHECK_THAT(AnswerTo(report, "network traffic"), Catch::Contains("of 10 trained parameters"));
  CHECK_THAT(AnswerTo(report, "How large"), Catch::Contains("1,000 parameters"));
  // Without the optimizer's state all are trained, unless there are adapters.
  WriteCheckpoint(checkpoint, 0);
  CHECK(ReportOf(folder.File("run")).numbers.bytes_each_way == 4000.0);
  WriteTestFile(folder.File("run/config.textproto"), "model {\n  lora {\n    rank: 8\n  }\n}\n");
  report = ReportOf(folder.File("run"));
  CHECK(report.numbers.bytes_each_way == 0.0);
  CHECK_THAT(AnswerTo(report, "network traffic"), Catch::StartsWith("Not known"));
}

TEST_CASE("while BLEU stands at zero the loss tells whether it is trained, and BLEU is no share") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  made.evaluations.clear();
  for (int step = 40; step <= 400; step += 40) {
    made.evaluations += "{\"step\":" + std::to_string(step) +
                        ",\"nll\":" + std::to_string(MadeUpRun::Loss(step)) + ",\"bleu\":0.0}\n";
  }
  const RunReport report = ReportOf(made.Write());
  CHECK(ScoreText(report) == "0.0 BLEU");
  CHECK(Find(report, "trained").level == VerdictLevel::kWarn);
  CHECK_THAT(Find(report, "trained").text, Catch::Contains("less dev loss"));
}

TEST_CASE("a run that was killed is found by its last sign of life") {
  const TemporaryFolder folder;
  const MadeUpRun made(folder.File("run"));
  made.Write();
  WriteTestFile(folder.File("run/STATUS"),
                "state running\nstep 390\nheartbeat 2026-01-31T12:10:00.500Z\n");
  CHECK(Find(ReportOf(folder.File("run"), kNow), "finished").level == VerdictLevel::kNote);
  CHECK(Find(ReportOf(folder.File("run"), kNow + 100.0), "finished").level == VerdictLevel::kBad);
}

TEST_CASE("a long evaluation is no crash") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  made.evaluations += "{\"step\":400,\"nll\":2.0,\"bleu\":30,\"seconds\":100}\n";
  made.Write();
  WriteTestFile(folder.File("run/STATUS"),
                "state running\nstep 390\nheartbeat 2026-01-31T12:10:00.500Z\n");
  CHECK(Find(ReportOf(folder.File("run"), kNow + 200.0), "finished").level == VerdictLevel::kNote);
  CHECK(Find(ReportOf(folder.File("run"), kNow + 300.0), "finished").level == VerdictLevel::kBad);
}

TEST_CASE("a run that goes on after its limit is not complete") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  CHECK(ReportOf(made.Write()).numbers.is_complete);
  made.events += "{\"step\":400,\"kind\":\"resume\",\"text\":\"going on from ckpt/step-400\"}\n";
  made.Write();
  WriteTestFile(folder.File("run/STATUS"),
                "state running\nstep 400\nheartbeat 2026-01-31T12:10:00.500Z\n");
  const RunReport report = ReportOf(folder.File("run"));
  CHECK_FALSE(report.numbers.is_complete);
  CHECK(Find(report, "trained").change == "Let it go on to its limit.");
  // Without events STATUS tells.
  made.events.clear();
  made.Write();
  WriteTestFile(folder.File("run/STATUS"), "state done\nstep 400\n");
  CHECK_THAT(Find(ReportOf(folder.File("run")), "trained").change,
             Catch::Contains("trainer.max_steps=600"));
}

TEST_CASE("advice names only settings that the run has") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  made.evaluations.clear();
  for (int step = 40; step <= 400; step += 40) {
    made.evaluations += "{\"step\":" + std::to_string(step) +
                        ",\"nll\":" + std::to_string(2.0 + 1e-3 * step) + ",\"seconds\":50}\n";
  }
  made.Write();
  const auto advice = [&] {
    const RunReport report = ReportOf(folder.File("run"));
    return Find(report, "evaluations").change + Find(report, "overfit").change;
  };
  CHECK_THAT(advice(), !Catch::Contains("eval_max_sentences"));
  CHECK_THAT(advice(), !Catch::Contains("patience"));
  const std::string config = ReadTestFile(folder.File("run/config.textproto"));
  WriteTestFile(
      folder.File("run/config.textproto"),
      config + "trainer {\n  eval_max_sentences: 0\n  early_stop {\n    patience: 0\n  }\n}\n");
  CHECK_THAT(advice(), Catch::Contains("(trainer.eval_max_sentences)"));
  CHECK_THAT(advice(), Catch::Contains("or trainer.early_stop.patience"));
}

TEST_CASE("restarts are counted by where they went on from, not by every remark") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  made.events += "{\"step\":76,\"kind\":\"resume\",\"text\":\"going on from ckpt/step-76\"}\n";
  made.events += "{\"step\":76,\"kind\":\"resume\",\"text\":\"settings differ from here on: x\"}\n";
  const RunReport report = ReportOf(made.Write());
  CHECK(report.numbers.resumes == std::vector<int64_t>{76});
  CHECK_THAT(Find(report, "restarts").text, Catch::Contains("1 time from a checkpoint"));
}

// A sample 5 s after the one before: 2 of 4 cores busy, 1.5 of them by two ranks.
std::string Sample(int i, double ranks_cpu) {
  const auto number = [](double value) { return std::to_string(value); };
  return "{\"t\":" + number(1769860800.0 + 5.0 * i) + ",\"cpu_busy\":" + number(10.0 * i) +
         ",\"cpu_total\":" + number(20.0 * i) + ",\"memory_available\":3e9,\"memory_total\":8e9," +
         "\"networks\":{\"eth0\":{\"received\":" + number(1e8 * i) +
         ",\"sent\":0}},\"ranks\":{\"0\":{\"cpu\":" + number(ranks_cpu) +
         ",\"memory\":1e8},\"1\":{\"cpu\":" + number(ranks_cpu) + ",\"memory\":1e8}}}\n";
}

TEST_CASE("processor time of others is the busy time less that of the ranks, without restarts") {
  const TemporaryFolder folder;
  const MadeUpRun made(folder.File("run"));
  made.Write();
  std::string samples = "{\"schema\":\"dtrain.host\",\"version\":1}\n";
  for (int i = 0; i < 10; ++i) samples += Sample(i, 3.75 * i);
  // The processes began anew: the interval is left out. So is a clock that went back.
  samples += Sample(10, 0.0) + Sample(11, 3.75) + Sample(3, 100.0);
  WriteTestFile(RecordsPath(folder.File("run"), recorded::kHost), samples);
  const RunReport report = ReportOf(folder.File("run"));
  CHECK(report.run.host.size() == 12);
  CHECK(report.numbers.others_share == Approx(0.125));
  CHECK(Find(report, "others").level == VerdictLevel::kNote);
}

TEST_CASE("the time that restarts lost is told from the clock of the records") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  made.steps = "{\"step\":10,\"t\":1000}\n{\"step\":20,\"t\":1010}\n{\"step\":30,\"t\":1090}\n";
  made.evaluations.clear();
  made.events =
      "{\"step\":20,\"kind\":\"resume\",\"text\":\"going on from ckpt/step-20\",\"t\":1080,"
      "\"ranks\":2}\n";
  const RunReport report = ReportOf(made.Write());
  CHECK(report.numbers.clock_seconds == Approx(90.0));
  CHECK(report.numbers.lost_seconds == Approx(70.0));
  CHECK(Find(report, "restarts").level == VerdictLevel::kNote);
  CHECK(report.run.events[0].ranks == 2.0);
  CHECK_THAT(AnswerTo(report, "How long did it take"),
             Catch::Contains("By the clock 1 min 30 s passed"));
}

TEST_CASE("the result of the test set is shown beside that of the dev set") {
  const TemporaryFolder folder;
  const MadeUpRun made(folder.File("run"));
  made.Write();
  WriteTestFile(RecordsPath(folder.File("run"), recorded::kTest),
                "{\"schema\":\"dtrain.test\",\"version\":1}\n{\"step\":400,\"bleu\":29.6}\n");
  const RunReport report = ReportOf(folder.File("run"));
  CHECK(TestText(report) == "29.6 BLEU");
  CHECK_THAT(AnswerTo(report, "How good"), Catch::Contains("On the test set 29.6 BLEU."));
  CHECK(nlohmann::json::parse(ReportJson(report))["results"]["test"]["bleu"] == 29.6);
}

TEST_CASE("what people ask is answered, or it is said what is missing") {
  const TemporaryFolder folder;
  const MadeUpRun made(folder.File("run"));
  const RunReport report = ReportOf(made.Write());
  CHECK_THAT(AnswerTo(report, "How long did it take"),
             Catch::Contains("40 s of training and 5.0 s of evaluation for 400 updates"));
  CHECK_THAT(AnswerTo(report, "average step"), Catch::Contains("100 ms (median)"));
  CHECK_THAT(AnswerTo(report, "fully trained"), Catch::Contains("Not fully trained"));
  CHECK_THAT(AnswerTo(report, "learning rate"),
             Catch::Contains("rises in a straight line over the first 40 updates, then it falls as "
                             "one over the square root"));
  CHECK_THAT(AnswerTo(report, "training set"), Catch::Contains("Not recorded"));
  CHECK_THAT(AnswerTo(report, "How good"), Catch::Contains("BLEU on the dev set"));
  for (const Answer& answer : report.answers) CHECK_FALSE(answer.text.empty());
}

TEST_CASE("report.json holds the same verdicts and answers, and null for what is no number") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  const nlohmann::json json = nlohmann::json::parse(ReportJson(ReportOf(made.Write())));
  CHECK(json["schema"] == "dtrain.report");
  CHECK(json["version"] == 1);
  CHECK(json["state"] == "done");
  CHECK(json["facts"]["updates"] == 400);
  CHECK(json["facts"]["seconds"].get<double>() == Approx(40.0));
  CHECK(json["verdicts"][0]["level"] == "warn");
  CHECK(json["verdicts"].size() > 10);
  CHECK(json["answers"].size() == 12);
  CHECK(json["results"]["dev"]["bleu"].get<double>() == Approx(60.0 - 12.0 * MadeUpRun::Loss(400)));

  made.steps.clear();
  const nlohmann::json empty = nlohmann::json::parse(ReportJson(ReportOf(made.Write())));
  CHECK(empty["facts"]["seconds"].is_null());
  CHECK(empty["facts"]["step_ms"].is_null());
}

TEST_CASE("settings that differ from the defaults are told from those that do not") {
  const TemporaryFolder folder;
  const MadeUpRun made(folder.File("run"));
  RunReport report = ReportOf(made.Write());
  CHECK(ChangedSettings(report).size() == report.run.settings.size());
  report.defaults = {{"optimizer.schedule", "inverse_sqrt"}, {"optimizer.learning_rate", "0.5"}};
  const Settings changed = ChangedSettings(report);
  CHECK(SettingOf(changed, "optimizer.schedule").empty());
  CHECK(SettingOf(changed, "optimizer.learning_rate") == "0.001");
}

TEST_CASE("the text for the terminal has verdicts with advice, and no control characters") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  made.Write();
  WriteTestFile(folder.File("run/STATUS"), "state failed\nstep 400\nmessage \x1b[31mred\n");
  const std::string text = ReportText(ReportOf(folder.File("run")));
  CHECK_THAT(text, Catch::Contains("x Failed  400"));
  CHECK_THAT(text, Catch::Contains("    Change: Look at the reason."));
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("a run without any record has a report") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  made.steps.clear();
  made.evaluations.clear();
  made.events.clear();
  const RunReport report = ReportOf(made.Write());
  CHECK(Find(report, "trained").level == VerdictLevel::kUnknown);
  CHECK(Find(report, "overfit").level == VerdictLevel::kUnknown);
  CHECK(Find(report, "stable").level == VerdictLevel::kUnknown);
  CHECK(Find(report, "data").level == VerdictLevel::kUnknown);
  CHECK(AnswerTo(report, "How long did it take") ==
        "Not recorded: there are no records of updates.");
  CHECK_FALSE(ReportText(report).empty());
}

}  // namespace
}  // namespace dtrain
