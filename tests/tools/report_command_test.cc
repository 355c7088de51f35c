// report_command_test.cc - `dtrain report` of real runs: files, text, lists, exit codes.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "testing/catch.h"
#include "testing/file_testing.h"
#include "tools/tiny_run.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a trained run has a page and its numbers, and its settings beside their defaults") {
  const std::string run = TinyRun::Get().run;
  const Outcome made = Tool("report " + run);
  INFO(made.output);
  REQUIRE(made.exit_code == 0);
  CHECK_THAT(made.output, Catch::Contains("report   " + run + "/report.html"));
  const nlohmann::json json = nlohmann::json::parse(ReadTestFile(run + "/report.json"));
  CHECK(json["state"] == "done");
  CHECK(json["facts"]["updates"] == 3);
  CHECK(json["facts"]["checkpoints"].get<double>() >= 1.0);
  CHECK(json["parameters"].get<int64_t>() > 0);
  CHECK(json["checkpoint_bytes"].get<int64_t>() > 4 * json["parameters"].get<int64_t>());
  const std::string page = ReadTestFile(run + "/report.html");
  CHECK_THAT(page, Catch::Contains("Settings that differ from their defaults"));
  CHECK_THAT(page, Catch::Contains(">trainer.max_steps</th>"));
  // A default that nobody changes.
  CHECK_THAT(page, !Catch::Contains(">optimizer.beta1</th>"));
}

TEST_CASE("text goes to the terminal, and nothing is written") {
  const std::string run = TinyRun::Get().run;
  fs::remove(run + "/report.html");
  const Outcome text = Tool("report --text " + run);
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.output, Catch::Contains("done"));
  CHECK_THAT(text.output, Catch::Contains("+ Finished  3"));
  CHECK_FALSE(fs::exists(run + "/report.html"));
}

TEST_CASE("a folder of runs has a list, two runs have a comparison") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string folder = tiny.Path("several");
  for (const char* const name : {"a", "b"}) {
    fs::create_directories(folder + "/" + name);
    for (const char* const part : {"metrics", "STATUS", "env.json", "config.textproto"}) {
      fs::copy(tiny.run + "/" + part, folder + "/" + name + "/" + part,
               fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    }
  }
  CHECK(Tool("report " + folder).exit_code == 0);
  CHECK_THAT(ReadTestFile(folder + "/report.html"), Catch::Contains(folder + "/b"));
  const std::string both = tiny.Path("both.html");
  CHECK(Tool("report " + folder + "/a " + folder + "/b --output=" + both).exit_code == 0);
  CHECK_THAT(ReadTestFile(both), Catch::Contains("Compared with other runs"));
  const Outcome piped = Tool("report " + folder + "/a --output=-");
  CHECK_THAT(piped.output, Catch::StartsWith("<!DOCTYPE html>"));
}

TEST_CASE("a folder of runs may be public, fails by any of its runs, and has no JSON") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string folder = tiny.Path("mixed");
  for (const char* const name : {"good", "bad"}) {
    fs::create_directories(folder + "/" + name + "/metrics");
    WriteTestFile(folder + "/" + name + "/STATUS", "state done\nstep 7\n");
  }
  CHECK(Tool("report --fail_on=bad " + folder).exit_code == 0);
  WriteTestFile(folder + "/bad/STATUS", "state failed\x1b[31m\nstep 7\n");
  const Outcome text = Tool("report --text " + folder);
  CHECK_THAT(text.output, Catch::Contains(folder + "/bad: failed\\x1b[31m, "));
  WriteTestFile(folder + "/bad/STATUS", "state failed\nstep 7\nmessage no space\n");
  CHECK(Tool("report --fail_on=bad " + folder).exit_code == 4);
  CHECK(Tool("report --text --fail_on=bad " + folder).exit_code == 4);
  CHECK_THAT(ReadTestFile(folder + "/report.html"), Catch::Contains(folder));
  CHECK(Tool("report --public " + folder).exit_code == 0);
  CHECK_THAT(ReadTestFile(folder + "/report.html"), !Catch::Contains(folder));
  const std::string listed = Tool("report --public --text " + folder).output;
  CHECK_THAT(listed, Catch::StartsWith("bad: failed, ") && !Catch::Contains(folder));
  const Outcome json = Tool("report " + folder + " --json=" + tiny.Path("x.json") + " 2>&1");
  CHECK(json.exit_code == 2);
  CHECK_THAT(json.output, Catch::Contains("--json is for one run"));
}

TEST_CASE("a bad verdict ends the command with code 4 where that is asked for") {
  const std::string run = TinyRun::Get().Path("failed");
  fs::create_directories(run);
  WriteTestFile(run + "/STATUS", "state failed\nstep 7\nmessage the disk is full\n");
  CHECK(Tool("report --text " + run).exit_code == 0);
  CHECK(Tool("report --text --fail_on=bad " + run).exit_code == 4);
  CHECK(Tool("report --text --fail_on=worse " + run + " 2>&1").exit_code == 2);
  CHECK(Tool("report --text --fail_on=bad " + TinyRun::Get().run).exit_code == 0);
}

TEST_CASE("what is no run, or cannot be written, is an error that says so") {
  const TinyRun& tiny = TinyRun::Get();
  const Outcome none = Tool("report " + tiny.Path("nowhere") + " 2>&1");
  CHECK(none.exit_code == 3);
  CHECK_THAT(none.output, Catch::Contains("holds no run"));
  CHECK(Tool("report 2>&1").exit_code == 2);
  CHECK(Tool("report " + tiny.run + " --output=/dev/null/x 2>&1").exit_code == 7);
}

}  // namespace
}  // namespace dtrain
