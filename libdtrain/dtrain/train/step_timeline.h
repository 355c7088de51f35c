// step_timeline.h - a trainer's timeline, which goes on and off while it runs: a file per rank.
// SPDX-License-Identifier: Apache-2.0
//
//   StepTimeline timeline(comm, {.directory = "traces"});
//   timeline.Start();  // each rank writes traces/rank-NNNNN.json
//   for (int64_t update = 0; update < 3; ++update) {
//     const Timeline::Span span(timeline.spans(), "step", kComputeLane, update);
//     timeline.EndUpdate();
//   }
#ifndef DTRAIN_TRAIN_STEP_TIMELINE_H_
#define DTRAIN_TRAIN_STEP_TIMELINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "dtrain/base/timeline.h"
#include "dtrain/comm/communicator.h"

namespace dtrain {

class Status;
class TraceFile;
enum class Phase : uint8_t;

// Seconds in which a rank was in each phase of its work, in the order of comm's Phase: start-up,
// data, forward, backward, exchange, update, evaluation, checkpoint. Exchange is what the rank
// waits after backward: for the network, and for slower ranks. What travels during backward is
// hidden in that. On a GPU, phases are those of the host: it starts the work of forward and
// backward, and waits for it in exchange or update.
inline constexpr size_t kNumPhases = 8;
using PhaseSeconds = std::array<double, kNumPhases>;

// The folder of the traces, and when they begin.
struct StepTimelineOptions {
  std::string directory = {};  // where each rank writes its trace; "": no timeline
  bool on = false;             // from the first update on
};

// If this rank's disk fails, a warning says so and its trace ends; training continues. Spans that
// find no room until the next EndUpdate() are missing in the trace, which a warning says once.
class StepTimeline {
 public:
  // `comm` outlives this.
  StepTimeline(Communicator& comm, StepTimelineOptions options);
  // Writes the spans that are left.
  ~StepTimeline();
  StepTimeline(const StepTimeline&) = delete;
  StepTimeline& operator=(const StepTimeline&) = delete;

  // Begins a new trace in place of an older one, of however many ranks. Compares the clocks of all
  // ranks. All ranks call it, between two updates.
  void Start();
  void Stop();
  // Start() or Stop(), whichever changes something. Returns a sentence for the log, or "" if there
  // is no directory for a trace. All ranks call it, between two updates.
  std::string Toggle();
  // The same on all ranks, even on one whose disk failed.
  bool is_on() const { return is_on_; }
  const StepTimelineOptions& options() const { return options_; }

  Timeline& spans() { return spans_; }
  // This rank's time in each phase since the last call: two readings of a clock for each phase.
  PhaseSeconds TakePhases() { return std::exchange(phases_, {}); }
  // Adds what this rank took before there was a timeline.
  void AddStartup(double seconds) { phases_[0] += seconds; }
  // Between two updates: writes the spans if many wait, or if they have waited long.
  void EndUpdate();

 private:
  friend class Checkpointer;
  friend class Evaluator;
  friend class UpdateStep;
  class PhaseSpan;

  // Marks the phase this rank is in. Heartbeats report it to the other ranks; the timeline records
  // it as a span. Its time is added to phases().
  [[nodiscard]] PhaseSpan Enter(Phase phase, int64_t index = -1);
  void Flush();
  void Check(const Status& status);

  // Lasts from its construction to its destruction.
  class PhaseSpan {
   public:
    PhaseSpan(std::string_view name, int lane, int64_t index, Timeline& spans, double& seconds);
    ~PhaseSpan();
    PhaseSpan(const PhaseSpan&) = delete;
    PhaseSpan& operator=(const PhaseSpan&) = delete;

   private:
    Timeline::Span span_;
    double& seconds_;
    int64_t begin_;
  };

  Communicator& comm_;
  StepTimelineOptions options_;
  PhaseSeconds phases_ = {};
  Timeline spans_;
  bool is_on_ = false;
  int64_t started_ = 0;  // Timeline::Now(): spans that began before belong to another trace
  bool told_lost_ = false;
  std::unique_ptr<TraceFile> file_;
  int64_t flushed_ = 0;  // Timeline::Now() of the last flush
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_STEP_TIMELINE_H_
