// log.h - log lines with a level; the program chooses where they go.
// SPDX-License-Identifier: Apache-2.0
//
//   LogWarning("corpus.en: 3 empty lines were dropped");
//   const LogSink before = SetLogSink([](LogLevel, std::string_view line) {
//     std::fprintf(stderr, "mine: %s\n", std::string(line).c_str());
//   });
//
// The library never writes to stdout. By default warnings and errors go to stderr. Programs install
// a sink that also writes logs/rank-NNNNN.log.
#ifndef DTRAIN_BASE_LOG_H_
#define DTRAIN_BASE_LOG_H_

#include <functional>
#include <string>
#include <string_view>

namespace dtrain {

// How important a line is.
enum class LogLevel { kDebug, kInfo, kWarning, kError };

// The printed name: "debug", "info", "warning" or "error".
std::string_view LogLevelName(LogLevel level);

// Receives every formatted line, without a newline. Any thread may call it, but only one call runs
// at a time.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;

// Replaces the sink and returns the previous one.
LogSink SetLogSink(LogSink sink);

// Gives a line to the sink.
void Log(LogLevel level, std::string_view message);
inline void LogInfo(std::string_view message) { Log(LogLevel::kInfo, message); }
inline void LogWarning(std::string_view message) { Log(LogLevel::kWarning, message); }
inline void LogError(std::string_view message) { Log(LogLevel::kError, message); }

}  // namespace dtrain

#endif  // DTRAIN_BASE_LOG_H_
