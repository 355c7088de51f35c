// timeline_bench.cc - what a timeline costs: a span, off and on, and its line in the trace.
// SPDX-License-Identifier: Apache-2.0
//
//   timeline_bench [SECONDS_OF_A_STEP]
// Best of several rounds, in nanoseconds, and the share of a step of that length (0.05 s) that the
// spans of an update with one micro-batch and ten buckets take.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/base/timeline.h"
#include "dtrain/base/timer.h"
#include "dtrain/runs/trace_files.h"

namespace dtrain {
namespace {

constexpr int kSpans = 8192;
// step, data, forward, backward, exchange, update, ten buckets.
constexpr int kSpansOfUpdate = 16;

double BestNanoseconds(const std::function<void()>& work) {
  double best = 1e9;
  for (int round = 0; round < 30; ++round) {
    const Timer timer;
    work();
    best = std::min(best, timer.Seconds() / kSpans);
  }
  return 1e9 * best;
}

int Main(double step_seconds) {
  Timeline timeline;
  const auto fill = [&] {
    for (int i = 0; i < kSpans; ++i) const Timeline::Span span(timeline, "forward", 1, i);
  };
  const double off = BestNanoseconds(fill);
  timeline.set_on(true);
  const double on = BestNanoseconds(fill);
  const std::string path = std::filesystem::temp_directory_path() / "dtrain-timeline-bench.json";
  const double written = BestNanoseconds([&] {
    StatusOr<TraceFile> file = TraceFile::Create(path, {});
    fill();
    const std::vector<TimelineSpan> spans = timeline.Take();
    if (!file.ok() || !file->Append(spans).ok()) std::exit(1);
  });
  std::filesystem::remove(path);
  std::printf(
      "{\"off_ns\":%.1f,\"on_ns\":%.1f,\"on_and_written_ns\":%.1f,\"step_s\":%g,"
      "\"share_of_step\":%.6f}\n",
      off, on, written, step_seconds, 1e-9 * written * kSpansOfUpdate / step_seconds);
  return 0;
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) { return dtrain::Main(argc > 1 ? std::atof(argv[1]) : 0.05); }
