// report_writer_test.cc - reports beside a training: how often, and what an error of one does.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/report_writer.h"

#include <atomic>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <string_view>

#include "dtrain/base/log.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

// The warnings while it lives.
class Warnings {
 public:
  Warnings() {
    SetLogSink([this](LogLevel, std::string_view line) { text_ += std::string(line) + "\n"; });
  }
  ~Warnings() { SetLogSink(nullptr); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

TEST_CASE("the next report waits 200 times as long as the last one took") {
  double now = 1000.0;
  int written = 0;
  ReportWriter writer(
      [&] {
        ++written;
        now += 0.5;
        return OkStatus();
      },
      [&] { return now; });
  CHECK(writer.WriteNow());
  CHECK(written == 1);
  now = 1000.5 + 99.9;
  writer.WriteSoon();
  now = 1000.5 + 100.1;
  CHECK(written == 1);
  writer.WriteSoon();
  CHECK(writer.WriteNow());  // waits for the thread; the end of a run does not wait for its time
  CHECK(written == 3);
}

TEST_CASE("a report that is still being written is not written twice at once, nor waited for") {
  std::atomic<int> written = 0;
  std::binary_semaphore may_end(0);
  {
    ReportWriter writer([&] {
      may_end.acquire();
      ++written;
      return OkStatus();
    });
    writer.WriteSoon();
    writer.WriteSoon();
    writer.WriteSoon();
    CHECK(written == 0);
    may_end.release();
  }
  CHECK(written == 1);
}

TEST_CASE("an error or an exception of a report is told once and ends nothing") {
  Warnings warnings;
  ReportWriter writer([]() -> Status { throw std::runtime_error("no room"); });
  CHECK_FALSE(writer.WriteNow());
  CHECK(warnings.text() == "the report of the run was not written: no room\n");
  CHECK_FALSE(writer.WriteNow());
  CHECK(warnings.text() == "the report of the run was not written: no room\n");
  ReportWriter failing([] { return StorageError("r: disk full"); });
  CHECK_FALSE(failing.WriteNow());
  CHECK(warnings.text().find("not written: r: disk full\n") != std::string::npos);
}

}  // namespace
}  // namespace dtrain
