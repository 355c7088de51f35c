// metrics_log_test.cc - JSON lines, and what a resume cuts off.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/metrics_log.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

constexpr char kSchema[] = "{\"schema\":\"dtrain.steps\",\"version\":1}\n";

TEST_CASE("a record keeps its order and every type comes back") {
  const JsonRecord record = JsonRecord()
                                .Set("step", int64_t{12})
                                .Set("loss", 0.1f + 0.2)
                                .Set("bad", std::numeric_limits<double>::quiet_NaN())
                                .Set("best", true)
                                .Set("text", "a\"\n\xff")
                                .Set("nested", JsonRecord().Set("x", 1));
  CHECK(record.ToString() ==
        R"({"step":12,"loss":0.30000000149011613,"bad":null,"best":true,"text":"a\"\n)"
        "\xEF\xBF\xBD\",\"nested\":{\"x\":1}}");
  CHECK(nlohmann::json::parse(record.ToString())["loss"] == 0.1f + 0.2);
}

void WriteSteps(const std::string& path, int64_t from, int64_t to,
                std::optional<int64_t> restored) {
  MetricsLog log = *MetricsLog::Open(path, "steps", restored);
  for (int64_t step = from; step <= to; ++step) {
    REQUIRE(log.Write(JsonRecord().Set("step", step)).ok());
  }
}

TEST_CASE("a resumed log drops the records behind the restored step") {
  const TemporaryFolder folder;
  const std::string path = folder.File("steps.jsonl");
  WriteSteps(path, 1, 4, -1);
  WriteSteps(path, 3, 3, 2);
  CHECK(ReadTestFile(path) == std::string(kSchema) + "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  WriteSteps(path, 1, 1, -1);
  CHECK(ReadTestFile(path) == std::string(kSchema) + "{\"step\":1}\n");
}

TEST_CASE("a line that a crash has cut is dropped") {
  const TemporaryFolder folder;
  const std::string path = folder.File("steps.jsonl");
  WriteTestFile(path, std::string(kSchema) + "{\"step\":1}\n{\"st");
  WriteSteps(path, 2, 2, std::nullopt);
  CHECK(ReadTestFile(path) == std::string(kSchema) + "{\"step\":1}\n{\"step\":2}\n");
  WriteTestFile(path, "{\"sche");
  WriteSteps(path, 1, 1, 0);
  CHECK(ReadTestFile(path) == std::string(kSchema) + "{\"step\":1}\n");
}

TEST_CASE("records are written at flushes, not one by one") {
  const TemporaryFolder folder;
  const std::string path = folder.File("steps.jsonl");
  MetricsLog log = *MetricsLog::Open(path, "steps");
  REQUIRE(log.Write(JsonRecord().Set("step", 1)).ok());
  CHECK(ReadTestFile(path) == kSchema);
  REQUIRE(log.Flush().ok());
  CHECK(ReadTestFile(path) == std::string(kSchema) + "{\"step\":1}\n");
}

TEST_CASE("a file of another schema is left alone and refused with exit code 7") {
  const TemporaryFolder folder;
  const std::string path = folder.File("steps.jsonl");
  WriteTestFile(path, "step,loss\n1,2\n");
  const Status status = MetricsLog::Open(path, "steps", 5).status();
  CHECK(status.code() == ExitCode::kStorage);
  CHECK(status.message() == path + ":1: not a dtrain.steps file of version 1; move it away");
  CHECK(ReadTestFile(path) == "step,loss\n1,2\n");
}

TEST_CASE("a full disk is an error of the flush and the record comes later") {
  const TemporaryFolder folder;
  const std::string path = folder.File("steps.jsonl");
  MetricsLog log = *MetricsLog::Open(path, "steps");
  REQUIRE(log.Write(JsonRecord().Set("step", 1)).ok());
  {
    const FileSizeLimit limit(45);
    const Status status = log.Flush();
    CHECK(status.code() == ExitCode::kStorage);
  }
  REQUIRE(log.Flush().ok());
  CHECK(ReadTestFile(path) == std::string(kSchema) + "{\"step\":1}\n");
}

}  // namespace
}  // namespace dtrain
