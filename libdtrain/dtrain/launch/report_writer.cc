// report_writer.cc - a thread per report, and the pause after it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/report_writer.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/log.h"

namespace dtrain {
namespace {

// Pause after a report, in times that it took.
constexpr double kPause = 200.0;
constexpr int kLeastPriority = 19;

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Only this thread: on Linux a thread has a priority of its own.
void GiveWay() {
  static_cast<void>(
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kLeastPriority));
}

}  // namespace

ReportWriter::ReportWriter(Function write, Clock clock)
    : write_(std::move(write)), clock_(clock ? std::move(clock) : Clock(SteadySeconds)) {
  next_ = clock_();
}

ReportWriter::~ReportWriter() { Join(); }

void ReportWriter::WriteSoon() {
  if (is_writing_ || clock_() < next_) return;
  Join();
  is_writing_ = true;
  try {
    thread_ = std::thread([this] {
      GiveWay();
      Write();
      is_writing_ = false;
    });
  } catch (const std::system_error&) {  // no thread to be had: the next evaluation may have one
    is_writing_ = false;
  }
}

bool ReportWriter::WriteNow() {
  Join();
  return Write();
}

bool ReportWriter::Write() {
  const double begin = clock_();
  std::string error;
  bool is_written = false;
  try {
    const Status status = write_();
    is_written = status.ok();
    error = status.message();
  } catch (const std::exception& exception) {
    error = exception.what();
  }
  const double end = clock_();
  next_ = end + kPause * (end - begin);
  if (!is_written && !has_warned_.exchange(true)) {
    LogWarning(absl::StrCat("the report of the run was not written: ", error));
  }
  return is_written;
}

void ReportWriter::Join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace dtrain
