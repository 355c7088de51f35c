// metrics_log.h - a stream of measurements as JSON lines.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(MetricsLog log, MetricsLog::Open(path, "steps", restored_step));
//   DT_RETURN_IF_ERROR(log.Write(JsonRecord().Set("step", step).Set("loss", loss)));
//
// The first line names the schema: {"schema":"dtrain.steps","version":1}.
#ifndef DTRAIN_RUNS_METRICS_LOG_H_
#define DTRAIN_RUNS_METRICS_LOG_H_

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "dtrain/base/status.h"

namespace dtrain {

// A JSON object that keeps the order in which its fields are set.
class JsonRecord {
 public:
  // Values may be numbers, bool, text (invalid UTF-8 becomes U+FFFD) or another record. NaN and
  // infinity become null, because JSON lacks them.
  template <typename T>
  JsonRecord& Set(std::string_view name, const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      return SetRaw(name, value ? "true" : "false");
    } else if constexpr (std::integral<T>) {
      return SetRaw(name, std::to_string(value));
    } else if constexpr (std::floating_point<T>) {
      return SetRaw(name, FormatNumber(value));
    } else if constexpr (std::is_same_v<T, JsonRecord>) {
      return SetRaw(name, value.ToString());
    } else {
      return SetRaw(name, Quote(value));
    }
  }
  JsonRecord& SetList(std::string_view name, std::span<const double> values);
  bool empty() const { return fields_.empty(); }
  // The object on one line, without a newline.
  std::string ToString() const { return "{" + fields_ + "}"; }

 private:
  JsonRecord& SetRaw(std::string_view name, std::string_view json);
  static std::string Quote(std::string_view text);
  static std::string FormatNumber(double value);

  std::string fields_;
};

// Appends records to a file. They are written to the file at most once a second; call Flush() at
// checkpoints.
class MetricsLog {
 public:
  // Creates or continues the file. A last line cut by a crash is dropped. If `restored_step` is
  // given, so is every record of a later step; -1 drops all. Returns an error (exit code 7) for
  // disk errors and for files of another schema or version.
  static StatusOr<MetricsLog> Open(const std::string& path, std::string_view stream,
                                   std::optional<int64_t> restored_step = {});
  MetricsLog(MetricsLog&&) noexcept;
  ~MetricsLog();

  Status Write(const JsonRecord& record);
  Status Flush();

 private:
  struct State;
  explicit MetricsLog(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace dtrain

#endif  // DTRAIN_RUNS_METRICS_LOG_H_
