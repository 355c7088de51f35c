// log.cc - the process-wide log sink, guarded by a mutex.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/log.h"

#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include "dtrain/base/printable.h"

namespace dtrain {
namespace {

void WriteToStderr(LogLevel level, std::string_view message) {
  if (level < LogLevel::kWarning) return;
  const std::string_view name = LogLevelName(level);
  std::fprintf(stderr, "dtrain: %.*s: %.*s\n", static_cast<int>(name.size()), name.data(),
               static_cast<int>(message.size()), message.data());
}

struct SinkState {
  std::mutex mutex;
  LogSink sink = WriteToStderr;
};

// Never destroyed, so that a static destructor can still log.
SinkState& State() {
  static SinkState* const state = new SinkState;
  return *state;
}

}  // namespace

std::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "?";
}

LogSink SetLogSink(LogSink sink) {
  const std::lock_guard lock(State().mutex);
  return std::exchange(State().sink, sink ? std::move(sink) : LogSink(WriteToStderr));
}

void Log(LogLevel level, std::string_view message) {
  // Messages quote files and command lines, whose escape sequences must not reach a terminal.
  const std::string shown = PrintableLines(message);
  const std::lock_guard lock(State().mutex);
  State().sink(level, shown);
}

}  // namespace dtrain
