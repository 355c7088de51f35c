// flight_recorder.cc - a ring in memory, JSON lines on disk.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/flight_recorder.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "dtrain/base/log.h"
#include "dtrain/base/status.h"

namespace dtrain::internal {

void FlightRecorder::Begin(int64_t sequence, const char* name, int64_t bytes) {
  records_[static_cast<size_t>(sequence % kRecords)] = {sequence, name, bytes, clock_.Seconds(),
                                                        -1};
  next_ = sequence + 1;
}

void FlightRecorder::End(int64_t sequence) {
  Record& record = records_[static_cast<size_t>(sequence % kRecords)];
  if (record.sequence == sequence) record.end = clock_.Seconds();
}

std::string FlightRecorder::Dump(std::string_view reason) {
  if (directory_.empty() || std::exchange(dumped_, true)) return "";
  std::string path = absl::StrFormat("%s/collectives-rank-%05d", directory_, owner_.rank);
  if (owner_.group > 0) absl::StrAppend(&path, "-group-", owner_.group);
  path += ".jsonl";
  std::ofstream out(path);
  const std::string text =
      absl::StrReplaceAll(ToAbsl(reason), {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", " "}});
  out << absl::StrFormat("{\"rank\": %d, \"host\": \"%s\", ", owner_.rank, owner_.host);
  if (owner_.group > 0) {
    out << absl::StrFormat("\"group\": %d, \"members\": \"%s\", ", owner_.group,
                           owner_.group_name.empty() ? "all ranks" : owner_.group_name);
  }
  out << absl::StrFormat("\"failed_s\": %.6f, \"reason\": \"%s\"}\n", clock_.Seconds(), text);
  for (int64_t s = std::max<int64_t>(next_ - kRecords, 0); s < next_; ++s) {
    const Record& record = records_[static_cast<size_t>(s % kRecords)];
    out << absl::StrFormat(
        "{\"sequence\": %d, \"collective\": \"%s\", \"bytes\": %d, \"start_s\": %.6f",
        record.sequence, record.name, record.bytes, record.start);
    if (record.end >= 0) out << absl::StrFormat(", \"end_s\": %.6f", record.end);
    out << "}\n";
  }
  out.close();
  if (!out) {
    LogWarning(path + " could not be written: the record of the last collectives is lost");
    return "";
  }
  return path;
}

}  // namespace dtrain::internal
