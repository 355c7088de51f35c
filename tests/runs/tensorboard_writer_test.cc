// tensorboard_writer_test.cc - event files, read back record by record.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/tensorboard_writer.h"

#include <cstring>
#include <vector>

#include "dtrain/base/crc.h"
#include "dtrain/tensorboard.pb.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

// The events of a file; fails the test on a wrong length or checksum.
std::vector<tensorboard::Event> ReadEvents(const std::string& path) {
  const std::string content = ReadTestFile(path);
  std::vector<tensorboard::Event> events;
  size_t position = 0;
  const auto take = [&](size_t bytes) {
    REQUIRE(position + bytes <= content.size());
    position += bytes;
    return content.substr(position - bytes, bytes);
  };
  const auto check_crc = [&](const std::string& bytes) {
    uint32_t crc = 0;
    std::memcpy(&crc, take(4).data(), 4);
    REQUIRE(crc == MaskedCrc32c(bytes));
  };
  while (position < content.size()) {
    const std::string length_bytes = take(8);
    uint64_t length = 0;
    std::memcpy(&length, length_bytes.data(), 8);
    check_crc(length_bytes);
    const std::string payload = take(length);
    check_crc(payload);
    REQUIRE(events.emplace_back().ParseFromString(payload));
  }
  return events;
}

Status AddScalar(TensorboardWriter& writer, std::string_view tag, double value, int64_t step) {
  const ScalarPoint point{tag, value};
  return writer.AddScalars(step, std::span(&point, 1));
}

TEST_CASE("an event file holds its version, scalars and texts") {
  const TemporaryFolder folder;
  TensorboardWriter writer = *TensorboardWriter::Create(folder.File("tb/train"));
  const ScalarPoint points[] = {{"train/loss", 3.5}, {"train/lr", 1e-4}};
  REQUIRE(writer.AddScalars(10, points).ok());
  REQUIRE(AddScalar(writer, "eval/bleu", 27.25, 10).ok());
  REQUIRE(writer.AddText("text/samples", "a **b**", 10).ok());
  REQUIRE(writer.Flush().ok());

  const std::vector<tensorboard::Event> events = ReadEvents(writer.path());
  REQUIRE(events.size() == 4);
  CHECK(events[0].file_version() == "brain.Event:2");
  CHECK(events[0].source_metadata().writer() == "dtrain");
  CHECK(events[1].step() == 10);
  CHECK(events[1].wall_time() > 1.6e9);
  REQUIRE(events[1].summary().value_size() == 2);
  CHECK(events[1].summary().value(0).tag() == "train/loss");
  CHECK(events[1].summary().value(0).simple_value() == 3.5f);
  CHECK(events[1].summary().value(1).simple_value() == 1e-4f);
  CHECK(events[2].summary().value(0).simple_value() == 27.25f);
  const auto& text = events[3].summary().value(0);
  CHECK(text.metadata().plugin_data().plugin_name() == "text");
  CHECK(text.tensor().string_val(0) == "a **b**");
}

TEST_CASE("event files are named as TensorBoard expects, two in one second too") {
  const TemporaryFolder folder;
  const TensorboardWriter first = *TensorboardWriter::Create(folder.path());
  const TensorboardWriter second = *TensorboardWriter::Create(folder.path());
  CHECK_THAT(first.path(), Catch::StartsWith(folder.File("events.out.tfevents.")));
  CHECK(first.path() != second.path());
}

TEST_CASE("a resumed run starts a session behind the restored step") {
  const TemporaryFolder folder;
  const TensorboardWriter writer = *TensorboardWriter::Create(folder.path(), 200);
  const std::vector<tensorboard::Event> events = ReadEvents(writer.path());
  REQUIRE(events.size() == 2);
  CHECK(events[1].session_log().status() == tensorboard::SessionLog::START);
  CHECK(events[1].step() == 201);
}

TEST_CASE("a folder that cannot hold event files is refused") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("file"), "");
  const Status status = TensorboardWriter::Create(folder.File("file/tb")).status();
  CHECK(status.code() == ExitCode::kStorage);
  CHECK(status.message() ==
        folder.File("file/tb") + ": cannot create the folder: Not a directory; check the path");
}

TEST_CASE("records wait while the disk is full and come out whole later") {
  const TemporaryFolder folder;
  TensorboardWriter writer = *TensorboardWriter::Create(folder.path());
  Status status;
  {
    const FileSizeLimit limit(100);
    for (int step = 0; step < 10; ++step) REQUIRE(AddScalar(writer, "a", step, step).ok());
    status = writer.Flush();
  }
  CHECK(status.code() == ExitCode::kStorage);
  CHECK_THAT(std::string(status.message()), Catch::EndsWith("(ulimit -f)"));
  REQUIRE(writer.Flush().ok());
  CHECK(ReadEvents(writer.path()).size() == 11);
}

// tests/integration/check_tensorboard.py reads what this leaves with TensorBoard's own reader.
TEST_CASE("a resumed run for TensorBoard's own reader", "[.tensorboard]") {
  const char* const directory = std::getenv("DTRAIN_TENSORBOARD_DIR");
  REQUIRE(directory != nullptr);
  TensorboardWriter first = *TensorboardWriter::Create(directory);
  for (int step = 1; step <= 10; ++step) {
    REQUIRE(AddScalar(first, "train/loss", 100 + step, step).ok());
    REQUIRE(AddScalar(first, "eval/bleu", step, step).ok());
  }
  REQUIRE(first.AddText("text/config", "steps: 10", 0).ok());
  REQUIRE(first.Flush().ok());
  TensorboardWriter second = *TensorboardWriter::Create(directory, 6);
  for (int step = 7; step <= 8; ++step) {
    REQUIRE(AddScalar(second, "train/loss", 200 + step, step).ok());
  }
}

}  // namespace
}  // namespace dtrain
