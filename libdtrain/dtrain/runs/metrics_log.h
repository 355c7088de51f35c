// metrics_log.h - one stream of measurements as JSON lines.
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
#include <string>
#include <string_view>
#include <type_traits>

#include "dtrain/base/status.h"

namespace dtrain {

// A JSON object whose fields keep the order they were set in.
class JsonRecord {
 public:
  // Numbers, bool, text (UTF-8; other bytes become U+FFFD) or another record. NaN and infinity,
  // which JSON lacks, become null.
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
  bool empty() const { return fields_.empty(); }
  // On one line, without a newline.
  std::string ToString() const { return "{" + fields_ + "}"; }

 private:
  JsonRecord& SetRaw(std::string_view name, std::string_view json);
  static std::string Quote(std::string_view text);
  static std::string FormatNumber(double value);

  std::string fields_;
};

// Appends records to a file. Written out at most once a second; Flush() at checkpoints.
class MetricsLog {
 public:
  // Creates the file, or continues it: a last line cut by a crash is dropped, and so, where
  // `restored_step` is given, is every record of a later step. A restored step of -1 drops all.
  // Error (exit code 7): the disk, or a file of another schema or version.
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
