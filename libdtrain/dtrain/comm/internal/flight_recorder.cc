// flight_recorder.cc - a ring in memory, JSON lines on disk.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/flight_recorder.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/log.h"
#include "dtrain/base/status.h"

namespace dtrain {

void FlightRecords::SetDefaultDirectory(std::string directory) {
  if (is_chosen_) return;
  const std::lock_guard lock(mutex_);
  directory_ = std::move(directory);
}

std::string FlightRecords::directory() const {
  const std::lock_guard lock(mutex_);
  return directory_;
}

void FlightRecords::DumpAll(std::string_view reason) {
  const std::lock_guard lock(mutex_);
  for (internal::FlightRecorder* const recorder : recorders_) {
    const std::string path = recorder->DumpTo(directory_, reason);
    if (!path.empty()) LogWarning("the last collectives of this rank are in " + path);
  }
}

namespace internal {

FlightRecorder::FlightRecorder(std::shared_ptr<FlightRecords> records, Owner owner)
    : records_(std::move(records)), owner_(std::move(owner)) {
  const std::lock_guard lock(records_->mutex_);
  records_->recorders_.push_back(this);
}

FlightRecorder::~FlightRecorder() {
  const std::lock_guard lock(records_->mutex_);
  std::erase(records_->recorders_, this);
}

void FlightRecorder::Begin(int64_t sequence, const char* name, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  ring_[static_cast<size_t>(sequence % kRecords)] = {sequence, name, bytes, clock_.Seconds(), -1};
  next_ = sequence + 1;
}

void FlightRecorder::End(int64_t sequence) {
  const std::lock_guard lock(mutex_);
  Record& record = ring_[static_cast<size_t>(sequence % kRecords)];
  if (record.sequence == sequence) record.end = clock_.Seconds();
}

std::string FlightRecorder::Dump(std::string_view reason) {
  return DumpTo(records_->directory(), reason);
}

std::string FlightRecorder::DumpTo(const std::string& directory, std::string_view reason) {
  const std::lock_guard lock(mutex_);
  if (directory.empty() || std::exchange(dumped_, true)) return "";
  std::string path = absl::StrFormat("%s/collectives-rank-%05d", directory, owner_.rank);
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
    const Record& record = ring_[static_cast<size_t>(s % kRecords)];
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

}  // namespace internal
}  // namespace dtrain
