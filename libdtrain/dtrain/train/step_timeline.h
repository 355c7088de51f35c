// step_timeline.h - a trainer's timeline: on and off while it runs, its spans to a file per rank.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_STEP_TIMELINE_H_
#define DTRAIN_TRAIN_STEP_TIMELINE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "dtrain/base/timeline.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/runs/trace_files.h"

namespace dtrain {

struct StepTimelineOptions {
  std::string directory = {};  // where the traces go; "": there is no timeline
  bool on = false;             // from the first update on
};

// A disk that fails is told once and ends this rank's trace, not the training. So are spans that
// had no room until the next EndUpdate(), which the trace lacks.
class StepTimeline {
 public:
  // `comm` outlives this.
  StepTimeline(Communicator& comm, StepTimelineOptions options);
  // Writes what is left.
  ~StepTimeline();
  StepTimeline(const StepTimeline&) = delete;
  StepTimeline& operator=(const StepTimeline&) = delete;

  // Begins a new trace in the place of an older one, of however many ranks: the clocks of all ranks
  // are compared. All ranks call it, between two updates.
  void Start();
  void Stop();
  // The same on all ranks, also on one whose disk failed.
  bool is_on() const { return is_on_; }
  const StepTimelineOptions& options() const { return options_; }

  Timeline& spans() { return spans_; }
  // Between two updates, and in long loops without any: writes the spans where many are waiting, or
  // for long.
  void EndUpdate();

 private:
  void Flush();
  void Check(const Status& status);

  Communicator& comm_;
  StepTimelineOptions options_;
  Timeline spans_;
  bool is_on_ = false;
  int64_t started_ = 0;  // Timeline::Now(): what began before is another trace's
  bool told_lost_ = false;
  std::optional<TraceFile> file_;
  Timer since_flush_;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_STEP_TIMELINE_H_
