// host_sampler_test.cc - what a sample of a host holds, and when samples are written.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/host_sampler.h"

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

nlohmann::json Sample(const std::vector<SampledRank>& ranks, const std::string& proc) {
  return nlohmann::json::parse(SampleHost(ranks, proc).ToString());
}

TEST_CASE("a sample holds what /proc says, in seconds and bytes") {
  const TemporaryFolder proc;
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  proc.Write("stat", "cpu  100 20 30 1000 40 1 2 7 50 60\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
  proc.Write("meminfo",
             "MemTotal: 2000 kB\nMemFree: 10 kB\nMemAvailable: 500 kB\nCached: 300 kB\n");
  proc.Write("diskstats",
             "   8 0 sda 1 2 10 4 5 6 20 8\n   8 1 sda1 1 2 900 4 5 6 900 8\n"
             "   7 0 loop0 1 2 900 4 5 6 900 8\n 259 0 nvme0n1 1 2 1 4 5 6 2 8\n"
             " 259 1 nvme0n1p1 1 2 900 4 5 6 900 8\n");
  std::filesystem::create_directories(proc.File("net"));
  proc.Write("net/dev",
             "Inter-| Receive\n face |bytes\n    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n"
             "  eth0:1234 1 0 0 0 0 0 0 567 1 0 0 0 0 0 0\n");
  std::filesystem::create_directories(proc.File("42"));
  proc.Write("42/stat", "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0 99 5000 12 0 0\n");
  const nlohmann::json sample = Sample({{3, 42}, {4, 43}}, proc.path());
  CHECK(sample["t"].get<double>() > 1.7e9);
  CHECK(sample["cpu_total"].get<double>() == Approx(1200.0 / ticks));
  CHECK(sample["cpu_busy"].get<double>() == Approx(160.0 / ticks));
  CHECK(sample["memory_total"] == 2000 * 1024);
  CHECK(sample["memory_available"] == 500 * 1024);
  CHECK(sample["page_cache"] == 300 * 1024);
  CHECK(sample["disk_read"].get<double>() == 11.0 * 512.0);
  CHECK(sample["disk_written"].get<double>() == 22.0 * 512.0);
  CHECK(sample["networks"].size() == 1);
  CHECK(sample["networks"]["eth0"]["received"].get<double>() == 1234.0);
  CHECK(sample["networks"]["eth0"]["sent"].get<double>() == 567.0);
  REQUIRE(sample["ranks"].size() == 1);
  CHECK(sample["ranks"]["3"]["cpu"].get<double>() == Approx(200.0 / ticks));
  CHECK(sample["ranks"]["3"]["memory"].get<double>() == 12.0 * page);
}

TEST_CASE("what a system does not tell is left out") {
  const TemporaryFolder proc;
  proc.Write("stat", "cpu");
  proc.Write("meminfo", "MemTotal:\n");
  proc.Write("diskstats", "8 0\n");
  std::filesystem::create_directories(proc.File("7"));
  proc.Write("7/stat", "7 (x) S 1 2\n");
  const nlohmann::json sample = Sample({{0, 7}}, proc.path());
  CHECK(sample.size() == 1);
  CHECK(sample.contains("t"));
}

TEST_CASE("this process and its host can be sampled") {
  const nlohmann::json sample = Sample({{0, ::getpid()}}, "/proc");
  CHECK(sample["cpu_total"].get<double>() > sample["cpu_busy"].get<double>());
  CHECK(sample["ranks"]["0"]["memory"].get<double>() > 1e6);
}

TEST_CASE("samples are written at the start, in between and at the end") {
  const TemporaryFolder folder;
  const std::string path = folder.File("host.jsonl");
  {
    const auto sampler = HostSampler::Start(path, {{0, ::getpid()}}, 0.05);
    REQUIRE(sampler != nullptr);
    ::usleep(300'000);
  }
  std::istringstream lines(ReadTestFile(path));
  std::vector<double> times;
  std::string line;
  std::getline(lines, line);
  CHECK(line == R"({"schema":"dtrain.host","version":1})");
  while (std::getline(lines, line)) times.push_back(nlohmann::json::parse(line)["t"]);
  CHECK(times.size() >= 3);
  for (size_t i = 1; i < times.size(); ++i) CHECK(times[i] > times[i - 1]);
}

TEST_CASE("a long period does not keep a run from ending") {
  const TemporaryFolder folder;
  { const auto sampler = HostSampler::Start(folder.File("host.jsonl"), {}, 3600.0); }
  std::istringstream lines(ReadTestFile(folder.File("host.jsonl")));
  int count = 0;
  for (std::string line; std::getline(lines, line);) ++count;
  CHECK(count >= 2);
}

TEST_CASE("a run does without samples where they cannot be written") {
  CHECK(HostSampler::Start("/nowhere/at/all/host.jsonl", {}) == nullptr);
}

}  // namespace
}  // namespace dtrain
