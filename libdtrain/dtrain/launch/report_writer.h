// report_writer.h - writes the report of a run beside the training, seldom enough to cost nothing.
// SPDX-License-Identifier: Apache-2.0
//
//   ReportWriter writer([&] { return WriteReport(run, {.defaults = defaults}); });
//   writer.WriteSoon();                            // after an evaluation: returns at once
//   const bool has_report = writer.WriteNow();     // at the end of the run
#ifndef DTRAIN_LAUNCH_REPORT_WRITER_H_
#define DTRAIN_LAUNCH_REPORT_WRITER_H_

#include <atomic>
#include <functional>
#include <thread>

#include "dtrain/base/status.h"

namespace dtrain {

// An error is told once, as a warning; so is an exception. Neither ends a run.
class ReportWriter {
 public:
  using Function = std::function<Status()>;
  using Clock = std::function<double()>;  // seconds since any time

  // `write` makes one report. `clock` is for tests.
  explicit ReportWriter(Function write, Clock clock = {});
  ReportWriter(const ReportWriter&) = delete;
  ReportWriter& operator=(const ReportWriter&) = delete;
  // Waits for the report that is being written.
  ~ReportWriter();

  // Begins a report on a thread that gives way to all others. Does nothing while one is being
  // written, and until 200 times as long as the last one took has passed since: so reports take at
  // most 0.5 % of one core, however long the records of the run have become.
  void WriteSoon();
  // Waits for the thread, then writes in this one, whatever the time. Returns whether that worked.
  bool WriteNow();

 private:
  bool Write();
  void Join();

  Function write_;
  Clock clock_;
  std::thread thread_;
  std::atomic<bool> is_writing_ = false;
  std::atomic<bool> has_warned_ = false;
  std::atomic<double> next_ = 0.0;  // not before, by the clock
};

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_REPORT_WRITER_H_
