// page_test.cc - the page is complete, small, and no text of a run becomes markup.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/page.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtrain/report/html.h"
#include "report/made_up_run.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

constexpr double kNow = 1769861460.0;

RunReport ReportOf(const std::string& path, bool is_public = false) {
  StatusOr<RunFacts> run = ReadRun(path);
  REQUIRE(run.ok());
  return MakeReport(*std::move(run), {.now = kNow, .is_public = is_public});
}

std::string PageOf(const std::string& path, bool is_public = false) {
  const std::array reports = {ReportOf(path, is_public)};
  return ReportPage(reports);
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The page without its style and its two scripts.
std::string Markup(const std::string& page) {
  const size_t style = page.find("<style>");
  const size_t style_end = page.find("</style>");
  const size_t script = page.find("<script type=\"application/json\"");
  REQUIRE(script != std::string::npos);
  return page.substr(0, style) + page.substr(style_end, script - style_end);
}

nlohmann::json ChartData(const std::string& page) {
  const std::string begin = "id=\"chart-data\">";
  const size_t at = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
}

const std::array<std::string, 12> kHostile = {
    "<script>window.pwned=1</script>",
    "\"><img src=x onerror=\"window.pwned=1\">",
    "</script><script>window.pwned=1</script>",
    "</title><h1>x",
    "<!--",
    "]]>",
    "\xE2\x80\xAEright to left",
    "a\x01\x7f\xff",
    "&lt;b&gt;",
    "' onmouseover='window.pwned=1",
    "<style>*{display:none}</style>",
    "<meta http-equiv=refresh content=0;url=http://evil/>"};

// The run of made_up_run.h with a text in every place that a run has for texts.
void WriteRunOfTexts(const std::string& path, const std::array<std::string, 12>& texts) {
  MadeUpRun made(path);
  const auto quoted = [&](size_t i) {
    return nlohmann::json(texts[i]).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  for (size_t i = 0; i < texts.size(); ++i) {
    made.events += "{\"step\":400,\"kind\":" + quoted(i) + ",\"text\":" + quoted(i) + "}\n";
  }
  made.evaluations += "{\"step\":440,\"nll\":2.0,\"bleu\":20,\"" + std::string("x") + "\":3}\n";
  made.Write();
  std::filesystem::create_directories(path + "/samples");
  std::filesystem::create_directories(path + "/data");
  std::string samples = "source\treference\thypothesis\n";
  std::string config = "trainer {\n  best_metric: bleu\n";
  for (size_t i = 0; i < texts.size(); ++i) {
    samples += texts[i] + "\t" + texts[(i + 1) % texts.size()] + "\t" + texts[i] + "\n";
    config += "  key" + std::to_string(i) + ": \"" + texts[i] + "\"\n";
  }
  WriteTestFile(path + "/samples/step-00000400.tsv", samples);
  WriteTestFile(path + "/config.textproto", config + "}\n");
  WriteTestFile(path + "/cmdline.txt", texts[2] + " " + texts[1] + "\n");
  WriteTestFile(path + "/STATUS", "state failed\nstep 400\nmessage " + texts[1] + "\n");
  WriteTestFile(path + "/env.json", "{\"program\":" + quoted(0) + ",\"host\":" + quoted(2) +
                                        ",\"processor\":" + quoted(1) + "}");
  WriteTestFile(path + "/data/prepare_report.json",
                "{\"cleaning\":{\"pairs_read\":100,\"pairs_kept\":50,\"dropped\":{" + quoted(1) +
                    ":{\"pairs\":50}}},\"sets\":{" + quoted(0) + ":{\"pairs\":5}}}");
}

void WriteLongRun(const std::string& path, int updates) {
  MadeUpRun made(path);
  made.steps.clear();
  made.evaluations.clear();
  for (int step = 10; step <= updates; step += 10) {
    const double noise = 0.05 * std::sin(7.0 * step) + (step == updates / 2 ? 4.0 : 0.0);
    made.steps += MadeUpRun::Step(step, MadeUpRun::Loss(step) + noise);
    if (step % (updates / 100) == 0) made.evaluations += MadeUpRun::Evaluation(step);
  }
  made.Write();
}

// A run with the time in its records, and samples of its host.
void WriteSampledRun(const std::string& path) {
  MadeUpRun made(path);
  made.steps.clear();
  std::string samples = "{\"schema\":\"dtrain.host\",\"version\":1}\n";
  for (int i = 1; i <= 40; ++i) {
    const std::string step = MadeUpRun::Step(10 * i);
    made.steps += step.substr(0, step.rfind('}')) + ",\"t\":" + std::to_string(5 * i) + "}\n";
    samples += "{\"t\":" + std::to_string(5 * i + 1) + ",\"cpu_busy\":" + std::to_string(10 * i) +
               ",\"cpu_total\":" + std::to_string(20 * i) +
               ",\"memory_available\":3e9,\"memory_total\":8e9,\"disk_read\":0,\"disk_written\":" +
               std::to_string(1000000 * i) +
               ",\"networks\":{\"<b>eth0\":{\"received\":" + std::to_string(50000000 * i) +
               ",\"sent\":7}},\"ranks\":{\"0\":{\"cpu\":" + std::to_string(8 * i) +
               ",\"memory\":1e9}}}\n";
  }
  made.Write();
  WriteTestFile(RecordsPath(path, recorded::kHost), samples);
}

TEST_CASE("text for a page is escaped, mended and cut") {
  CHECK(Html("<a href=\"x\">'&") == "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
  CHECK(Html("a\x01\xff") == "a\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(Html("\xE2\x80\xAE") == "\xEF\xBF\xBD");
  CHECK(Html("\xC3\xA4\n\t") == "\xC3\xA4\n\t");
  CHECK(Html(std::string(5000, 'w')) == std::string(2000, 'w') + "...");
  CHECK(JsonForScript("</script>&\xE2\x80\xA8") == "\\u003c/script\\u003e\\u0026\\u2028");
}

TEST_CASE("a digest becomes a source of the policy") {
  // The SHA-256 of nothing.
  CHECK(PolicySource("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855") ==
        "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
}

TEST_CASE("a page has its sections once, loads nothing, and has a strict policy") {
  const TemporaryFolder folder;
  const MadeUpRun made(folder.File("run"));
  const std::string page = PageOf(made.Write());
  for (const char* const id : {"verdicts", "answers", "curves", "time", "machines", "samples",
                               "data", "again", "c-loss", "c-rate"}) {
    INFO(id);
    CHECK(Count(page, " id=\"" + std::string(id) + "\"") == 1);
  }
  const std::string markup = Markup(page);
  CHECK_THAT(page, Catch::Contains("default-src 'none'; style-src 'sha256-"));
  CHECK_THAT(page, !Catch::Contains("unsafe"));
  CHECK(Count(page, "<script") == 2);
  CHECK(Count(markup, " style=") == 0);
  CHECK(Count(markup, "src=") == 0);
  CHECK(Count(markup, "href=\"") == Count(markup, "href=\"#"));
  CHECK(Count(markup, "nan") == 0);
  CHECK_THAT(markup, Catch::Contains("Not fully trained"));
  CHECK_THAT(markup, Catch::Contains("nmt_train --run_dir=r"));
}

TEST_CASE("the data of the charts is that of the records") {
  const TemporaryFolder folder;
  MadeUpRun made(folder.File("run"));
  made.steps += "{\"step\":410,\"loss\":null,\"seconds\":41}\n";
  const nlohmann::json charts = ChartData(PageOf(made.Write()))["charts"];
  const nlohmann::json& loss = charts["loss"]["series"];
  REQUIRE(loss.size() == 3);
  CHECK(loss[0]["look"] == "raw");
  CHECK(loss[0]["step"].size() == 41);
  CHECK(loss[0]["y"][0].get<double>() == Approx(MadeUpRun::Loss(10)).epsilon(1e-4));
  CHECK(loss[0]["y"][40].is_null());
  CHECK(loss[0]["tokens"][39] == 400000);
  CHECK(loss[0]["time"][39].get<double>() == Approx(40.0));
  CHECK(charts["metric"]["series"][0]["y"].size() == 10);
  CHECK(charts["norm"]["limits"][0]["y"] == 1);
}

TEST_CASE("samples of the host become curves of rates against updates") {
  const TemporaryFolder folder;
  WriteSampledRun(folder.File("run"));
  const std::string page = PageOf(folder.File("run"));
  const nlohmann::json charts = ChartData(page)["charts"];
  const nlohmann::json& cpu = charts["cpu"];
  // 8 s of processor time in 5 s, of 10 s that were busy, on 4 cores.
  CHECK(cpu["series"][0]["y"][0].get<double>() == Approx(1.6));
  CHECK(cpu["series"][1]["y"][0].get<double>() == Approx(0.4));
  CHECK(cpu["limits"][0]["y"] == 4);
  CHECK(cpu["series"][0]["step"].back() == 400);
  CHECK(charts["memory"]["series"][0]["y"][0].get<double>() == Approx(5.0));
  CHECK(charts["network"]["series"][0]["y"][0].get<double>() == Approx(10.0));
  CHECK(charts["network"]["series"][0]["name"] == "<b>eth0 received");
  CHECK_THAT(Markup(page), Catch::Contains("&lt;b&gt;eth0 received"));
  CHECK(charts["disk"]["series"][1]["y"][0].get<double>() == Approx(0.2));
}

TEST_CASE("no text of a run becomes markup: the page has the elements of its harmless twin") {
  const TemporaryFolder folder;
  std::array<std::string, 12> harmless;
  harmless.fill("harmless");
  WriteRunOfTexts(folder.File("run"), kHostile);
  const std::string hostile = Markup(PageOf(folder.File("run")));
  WriteRunOfTexts(folder.File("run"), harmless);
  const std::string twin = Markup(PageOf(folder.File("run")));
  for (const char* const part : {"<script", "<img", "<h1", "<style", "<meta", "<title", "<!--",
                                 "<tr", "<td", "<b>", "<p", "<article", "</"}) {
    INFO(part);
    CHECK(Count(hostile, part) == Count(twin, part));
  }
  CHECK(Count(hostile, " onmouseover='") == 0);
  CHECK_THAT(hostile, Catch::Contains("&lt;script&gt;window.pwned=1&lt;/script&gt;"));
  CHECK(hostile.find("\xE2\x80\xAE") == std::string::npos);
}

TEST_CASE("a public page names no path, host or command") {
  const TemporaryFolder folder;
  const MadeUpRun made(folder.File("run"));
  made.Write();
  WriteTestFile(folder.File("run/config.textproto"),
                "run {\n  run_dir: \"/home/jane/r\"\n}\ndata {\n  train_source: \"/data/x\"\n}\n");
  const std::string open = PageOf(folder.File("run"));
  const std::string shown = PageOf(folder.File("run"), true);
  for (const char* const secret : {"node7", "/home/jane", "/data/x", "nmt_train --run_dir"}) {
    INFO(secret);
    CHECK_THAT(open, Catch::Contains(secret));
    CHECK_THAT(shown, !Catch::Contains(secret));
  }
}

TEST_CASE("text, JSON, compared runs and a list are public, too, where that is asked for") {
  const TemporaryFolder folder;
  for (const std::string name : {"jane/run", "joe/run"}) {
    MadeUpRun made(folder.File(name));
    made.events += "{\"step\":400,\"kind\":\"stop\",\"text\":\"cannot write /home/event\"}\n";
    made.Write();
    WriteTestFile(folder.File(name + "/config.textproto"),
                  "run {\n  output_dir: \"" + name + "\"\n}\ndata {\n  train_source: \"/data/" +
                      name + "\"\n  max_length: " + (name == "jane/run" ? "7" : "8") + "\n}\n");
    WriteTestFile(folder.File(name + "/STATUS"),
                  "state failed\nstep 400\nmessage /home/message: no space\n");
  }
  const auto texts = [&](bool is_public) {
    const std::array reports = {ReportOf(folder.File("jane/run"), is_public),
                                ReportOf(folder.File("joe/run"), is_public)};
    return std::array{ReportText(reports[0]), ReportJson(reports[0]), ReportPage(reports),
                      IndexPage(folder.File("all"), reports)};
  };
  const std::array<std::string, 4> open = texts(false);
  const std::array<std::string, 4> shown = texts(true);
  for (size_t i = 0; i < open.size(); ++i) {
    INFO(i);
    for (const std::string& secret :
         {std::string("/home/"), std::string("/data/"), std::string("jane"), folder.File("")}) {
      CHECK_THAT(shown[i], !Catch::Contains(secret));
    }
    CHECK_THAT(open[i], Catch::Contains(i < 3 ? "/home/message" : folder.File("jane/run")));
  }
  CHECK_THAT(shown[0], Catch::Contains("the reason is in STATUS"));
  for (const size_t i : {2u, 3u}) {
    CHECK_THAT(open[i], Catch::Contains("/data/jane/run"));
    CHECK_THAT(shown[i], Catch::Contains(">data.max_length</th>"));
    CHECK_THAT(shown[i], Catch::Contains(">run (2)</th>"));
  }
}

TEST_CASE("the page of a hundred thousand records is small, and still shows the one spike") {
  const TemporaryFolder folder;
  WriteLongRun(folder.File("run"), 1'000'000);
  const std::string page = PageOf(folder.File("run"));
  CHECK(page.size() < 1'000'000);
  double highest = 0.0;
  const nlohmann::json data = ChartData(page);
  for (const auto& y : data["charts"]["loss"]["series"][0]["y"]) {
    highest = std::max(highest, y.get<double>());
  }
  CHECK(highest > 5.0);
  CHECK_THAT(page, Catch::Contains("first at update 500,000"));
}

TEST_CASE("several runs are compared: results, curves, and only the settings that differ") {
  const TemporaryFolder folder;
  const MadeUpRun first(folder.File("first"));
  const MadeUpRun second(folder.File("second"));
  first.Write();
  second.Write();
  const std::string config = ReadTestFile(folder.File("second/config.textproto"));
  WriteTestFile(folder.File("second/config.textproto"), config + "kernels {\n  attention: x\n}\n");
  const std::array reports = {ReportOf(folder.File("first")), ReportOf(folder.File("second"))};
  const std::string page = ReportPage(reports);
  const std::string compared = page.substr(page.find("id=\"compare\""));
  CHECK_THAT(compared, Catch::Contains(">kernels.attention</th>"));
  CHECK_THAT(compared.substr(0, compared.find("id=\"again\"")),
             !Catch::Contains("optimizer.schedule"));
  CHECK(ChartData(page)["charts"]["compared-loss"]["series"].size() == 2);
}

TEST_CASE("compared runs of the same name are told apart by the folders before it") {
  const TemporaryFolder folder;
  for (const char* const name : {"a/x/run", "b/x/run", "b/y/run", "other"}) {
    const MadeUpRun made(folder.File(name));
    made.Write();
  }
  const std::array reports = {ReportOf(folder.File("a/x/run")), ReportOf(folder.File("b/x/run")),
                              ReportOf(folder.File("b/y/run/")), ReportOf(folder.File("other")),
                              ReportOf(folder.File("other"))};
  const nlohmann::json charts = ChartData(ReportPage(reports))["charts"];
  std::vector<std::string> names;
  for (const auto& series : charts["compared-metric"]["series"]) names.push_back(series["name"]);
  REQUIRE(names.size() == 5);
  CHECK(names[0] == "a/x/run");
  CHECK(names[1] == "b/x/run");
  CHECK(names[2] == "y/run");
  // The same folder twice has no other name, but a number.
  CHECK_THAT(names[3], Catch::EndsWith("other (1)"));
  CHECK_THAT(names[4], Catch::EndsWith("other (2)"));
}

TEST_CASE("a page of a thousand long runs stays below its bound") {
  const TemporaryFolder folder;
  WriteLongRun(folder.File("run"), 50'000);
  const RunReport report = ReportOf(folder.File("run"));
  const std::vector<RunReport> reports(1000, report);
  CHECK(ReportPage(reports).size() < 1'000'000);
}

TEST_CASE("the index lists the best run first") {
  const TemporaryFolder folder;
  const MadeUpRun good(folder.File("good"));
  MadeUpRun bad(folder.File("bad"));
  bad.evaluations = "{\"step\":40,\"nll\":3.0,\"bleu\":2.0}\n";
  good.Write();
  bad.Write();
  const std::array reports = {ReportOf(folder.File("bad")), ReportOf(folder.File("good"))};
  const std::string page = IndexPage("all <runs>", reports);
  const std::string markup = Markup(page);
  CHECK_THAT(markup, Catch::Contains("Runs in all &lt;runs&gt;"));
  CHECK(markup.find("/good<") < markup.find("/bad<"));
  CHECK(Count(markup, "<button type=\"button\">") == 7);
}

// tests/integration/check_report_page.py opens what this leaves in a browser.
TEST_CASE("pages for a browser", "[.browser]") {
  const char* const directory = std::getenv("DTRAIN_PAGES_DIR");
  REQUIRE(directory != nullptr);
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& page) {
    WriteTestFile(std::string(directory) + "/" + name + ".html", page);
  };
  const MadeUpRun plain(folder.File("plain"));
  write("plain", PageOf(plain.Write()));
  WriteSampledRun(folder.File("sampled"));
  write("sampled", PageOf(folder.File("sampled")));
  MadeUpRun unfinished(folder.File("unfinished"));
  unfinished.evaluations.clear();
  unfinished.events.clear();
  unfinished.steps = unfinished.steps.substr(0, unfinished.steps.size() / 2);
  write("unfinished", PageOf(unfinished.Write()));
  MadeUpRun empty(folder.File("empty"));
  empty.steps.clear();
  empty.evaluations.clear();
  write("empty", PageOf(empty.Write()));
  MadeUpRun huge(folder.File("huge"));
  huge.steps.clear();
  // So large that a step between ticks of the tokens changes nothing.
  int step = 0;
  for (const char* const tokens :
       {"4611686018427387904", "4611686018427388928", "4611686018427389952"}) {
    step += 10;
    huge.steps += "{\"step\":" + std::to_string(step) +
                  ",\"loss\":1e20,\"target_tokens\":" + tokens + ",\"seconds\":1e300}\n";
  }
  write("huge", PageOf(huge.Write()));
  WriteRunOfTexts(folder.File("hostile"), kHostile);
  write("hostile", PageOf(folder.File("hostile")));
  WriteLongRun(folder.File("million"), 1'000'000);
  write("million", PageOf(folder.File("million")));
  const std::array reports = {ReportOf(folder.File("plain")), ReportOf(folder.File("million"))};
  write("compared", ReportPage(reports));
  write("index", IndexPage("runs", reports));
}

}  // namespace
}  // namespace dtrain
