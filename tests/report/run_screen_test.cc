// run_screen_test.cc - one screen of a run: what it holds, and that it fits.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/run_screen.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "report/made_up_run.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

RunReport ReportOf(const std::string& path) {
  StatusOr<RunFacts> run = ReadRun(path);
  REQUIRE(run.ok());
  return MakeReport(*std::move(run), {.now = 1769861460.0});
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST_CASE("a curve falls from full blocks to the lowest, whatever its length") {
  const std::vector<double> falling = {8, 7, 6, 5, 4, 3, 2, 1};
  CHECK(Sparkline(falling, 8, true) == "█▇▆▅▄▃▂▁");
  CHECK(Sparkline(falling, 4, false) == "#=,_");
  CHECK(Sparkline(falling, 100, false) == "#*=~-,._");
  CHECK(Sparkline(std::vector<double>{1.0, std::nan(""), 2.0}, 3, false) == "_ #");
  CHECK(Sparkline(std::vector<double>{3.0, 3.0}, 2, false) == "__");
  CHECK(Sparkline({}, 10, true).empty());
  CHECK(Sparkline(std::vector<double>{std::nan("")}, 10, true).empty());
}

TEST_CASE("the screen of a run has progress, curves, verdicts and events") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  const std::string path = made.Write();
  WriteTestFile(path + "/STATUS", "state running\nstep 200\nheartbeat 2026-01-31T12:10:55Z\n");
  WriteTestFile(RecordsPath(path, recorded::kPhases),
                "{\"schema\":\"dtrain.ranks\",\"version\":1}\n"
                "{\"step\":400,\"seconds\":10,\"start\":[0,0],\"data\":[1,1],\"forward\":[3,4.25],"
                "\"backward\":[3,3],\"exchange\":[2,0],\"update\":[1,1],\"evaluation\":[0,0],"
                "\"checkpoint\":[0,0]}\n");
  const RunReport report = ReportOf(path);
  const std::string screen = Joined(RunScreen(report, {.columns = 120, .rows = 50}));
  INFO(screen);
  CHECK_THAT(screen, Catch::Contains("run  running  update 400 of 400 (100 %)"));
  CHECK_THAT(screen, Catch::Contains("100 ms an update"));
  CHECK_THAT(screen, Catch::Contains("BLEU"));
  CHECK_THAT(screen, Catch::Contains("4.25"));
  const size_t head = screen.find("rank ");
  CHECK(screen.find('\n', head) - head < 80);
  CHECK_THAT(screen, Catch::Contains("stop @400: the run is complete: max_steps"));
}

TEST_CASE("a screen is never longer than asked, and holds no control characters") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  made.events += "{\"step\":400,\"kind\":\"\\u001b[2J\",\"text\":\"a\\nb\"}\n";
  const RunReport report = ReportOf(made.Write());
  for (const size_t rows : {1, 3, 5, 24}) {
    const std::vector<std::string> lines = RunScreen(report, {.columns = 20, .rows = rows});
    CHECK(lines.size() <= rows);
    for (const std::string& line : lines) {
      CHECK(std::none_of(line.begin(), line.end(), [](unsigned char c) { return c < 32; }));
    }
  }
}

TEST_CASE("the time left is that of the nearest limit") {
  const TemporaryFolder folder;
  RunReport report = ReportOf(MadeUpRun(folder.File("run")).Write());
  report.run.status.step = 0;
  report.run.steps.resize(20);  // 200 updates of 100 ms in 20 s
  CHECK(SecondsLeft(report) == Approx(20.0));
  report.run.settings.emplace_back("trainer.max_time", "30s");
  CHECK(SecondsLeft(report) == Approx(10.0));
  std::erase_if(report.run.settings, [](const auto& setting) {
    return setting.first == "trainer.max_steps" || setting.first == "trainer.max_time";
  });
  CHECK(std::isnan(SecondsLeft(report)));
}

TEST_CASE("a run without any record has a screen") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.File("run/metrics"));
  const std::vector<std::string> lines = RunScreen(ReportOf(folder.File("run")), {});
  CHECK_THAT(Joined(lines), Catch::Contains("no records yet"));
}

}  // namespace
}  // namespace dtrain
