// runtime.cc - the log file of one rank.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/runtime.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>

#include "absl/strings/str_format.h"
#include "dtrain/app/signals.h"
#include "dtrain/base/host.h"
#include "dtrain/base/log.h"

namespace dtrain {
namespace {

// "2026-11-21T10:15:03.042Z"
std::string UtcNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                         utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, milliseconds % 1000);
}

}  // namespace

StopFlags& Runtime::StopRequests() const { return TakeStopRequests(); }

absl::Status Runtime::OpenLog(const std::string& directory) const {
  const std::filesystem::path folder = std::filesystem::path(directory) / "logs";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = folder / absl::StrFormat("rank-%05d.log", comm.rank());
  // Line by line, so that the last words of a killed rank are there.
  std::FILE* const opened = error ? nullptr : std::fopen(path.c_str(), "a");
  if (opened == nullptr) {
    return StorageError(absl::StrFormat("%s: cannot write the log: %s", path,
                                        error ? error.message() : std::strerror(errno)));
  }
  std::setvbuf(opened, nullptr, _IOLBF, BUFSIZ);
  // Shared because a sink is a copyable function object.
  const std::shared_ptr<std::FILE> file(opened, [](std::FILE* f) { std::fclose(f); });
  const LogSink terminal = SetLogSink(nullptr);
  SetLogSink([file, terminal](LogLevel level, std::string_view message) {
    std::fprintf(file.get(), "%s\n",
                 absl::StrFormat("%s %-7s %s", UtcNow(), LogLevelName(level), message).c_str());
    terminal(level, message);
  });
  LogInfo(absl::StrFormat("rank %d of %d on host %s, process %d, %d thread%s", comm.rank(),
                          comm.size(), HostName(), ::getpid(), threads, threads == 1 ? "" : "s"));
  return absl::OkStatus();
}

}  // namespace dtrain
