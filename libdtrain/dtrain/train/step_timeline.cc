// step_timeline.cc - starts a trace, flushes it seldom, and ends it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/step_timeline.h"

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/log.h"
#include "dtrain/base/status.h"
#include "dtrain/comm/clock_offset.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/runs/trace_files.h"

namespace dtrain {
namespace {

constexpr int64_t kFlushNanoseconds = 5'000'000'000;

}  // namespace

StepTimeline::StepTimeline(Communicator& comm, StepTimelineOptions options)
    : comm_(comm), options_(std::move(options)) {}

StepTimeline::~StepTimeline() { Stop(); }

void StepTimeline::Start() {
  Stop();
  is_on_ = true;
  const std::vector<double> offsets =
      MeasureClockOffsets(comm_, [] { return 1e-9 * static_cast<double>(Timeline::Now()); });
  int64_t started = std::chrono::system_clock::now().time_since_epoch().count();
  comm_.Broadcast(&started, sizeof(started), 0);
  const int rank = comm_.rank();
  if (const Status made = MakeDirectories(options_.directory); !made.ok()) return Check(made);
  // Those of ranks that this job lacks would never be replaced.
  if (rank == 0) {
    const Status removed = RemoveTraces(options_.directory, comm_.size());
    if (!removed.ok()) return Check(removed);
  }
  StatusOr<TraceFile> file = TraceFile::Create(TracePath(options_.directory, rank),
                                               {.rank = rank,
                                                .ranks = comm_.size(),
                                                .host = comm_.topology().host(rank),
                                                .clock_offset = offsets[static_cast<size_t>(rank)],
                                                .started = started});
  if (!file.ok()) return Check(file.status());
  file_ = std::make_unique<TraceFile>(*std::move(file));
  started_ = Timeline::Now();
  spans_.set_on(true);
  flushed_ = started_;
}

void StepTimeline::Stop() {
  spans_.set_on(false);
  Flush();
  file_.reset();
  is_on_ = false;
}

std::string StepTimeline::Toggle() {
  if (options_.directory.empty()) return "";
  if (is_on_) {
    Stop();
    return absl::StrFormat("the traces in %s end here; dtrain trace-merge joins them",
                           options_.directory);
  }
  Start();
  return absl::StrFormat("each rank writes a trace into %s", options_.directory);
}

static_assert(kNumPhases == static_cast<size_t>(Phase::kEnd));

StepTimeline::PhaseSpan::PhaseSpan(std::string_view name, int lane, int64_t index, Timeline& spans,
                                   double& seconds)
    : span_(spans, name, lane, index), seconds_(seconds), begin_(Timeline::Now()) {}

StepTimeline::PhaseSpan::~PhaseSpan() {
  seconds_ += 1e-9 * static_cast<double>(Timeline::Now() - begin_);
}

StepTimeline::PhaseSpan StepTimeline::Enter(Phase phase, int64_t index) {
  HeartbeatOf(comm_)->SetPhase(phase);
  const int lane = phase < Phase::kEvaluation ? kComputeLane : kEvaluationLane;
  return {Name(phase), lane, index, spans_, phases_[static_cast<size_t>(phase)]};
}

void StepTimeline::EndUpdate() {
  if (!spans_.is_on()) return;
  if (spans_.size() < spans_.capacity() / 2 && Timeline::Now() - flushed_ < kFlushNanoseconds)
    return;
  Flush();
}

void StepTimeline::Flush() {
  flushed_ = Timeline::Now();
  std::vector<TimelineSpan> spans = spans_.Take();
  std::erase_if(spans, [&](const TimelineSpan& span) { return span.begin < started_; });
  if (file_) Check(file_->Append(spans));
  if (spans_.lost() > 0 && !std::exchange(told_lost_, true)) {
    LogWarning(absl::StrFormat(
        "%d spans of this rank's timeline are lost, as more than %d came between two updates",
        spans_.lost(), spans_.capacity()));
  }
}

void StepTimeline::Check(const Status& status) {
  if (status.ok()) return;
  spans_.set_on(false);
  file_.reset();
  LogWarning(absl::StrCat("the timeline of this rank ends here: ", status.message()));
}

}  // namespace dtrain
