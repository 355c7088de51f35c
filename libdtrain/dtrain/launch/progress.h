// progress.h - the line that says how training goes: a bar on a terminal, plain lines elsewhere.
// SPDX-License-Identifier: Apache-2.0
//
//   Progress progress({.style = ProgressStyle::kAuto, .log_every = 100});
//   progress.Update({.step = step, .max_steps = 20000, .loss = loss, ...});  // after every step
//   progress.Message("eval @1840  BLEU 11.8");                               // a line of its own
//
// Everything goes to stderr; results go to stdout and are not printed here. Only the root rank
// makes one.
#ifndef DTRAIN_LAUNCH_PROGRESS_H_
#define DTRAIN_LAUNCH_PROGRESS_H_

#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain {

enum class ProgressStyle { kAuto, kBar, kPlain, kNone };

// "auto", "bar", "plain" or "none"; UsageError (exit code 2) for anything else.
StatusOr<ProgressStyle> ParseProgressStyle(std::string_view text);

// Facts that decide between a progress bar and plain lines.
struct TerminalFacts {
  bool stderr_is_terminal = false;
  bool under_launcher = false;  // mpirun or srun started this process
  bool is_dumb = false;         // TERM=dumb or unset: no cursor movement
  bool use_color = true;        // NO_COLOR is unset or empty
  bool use_unicode = true;      // the locale is UTF-8
  int columns = 80;

  static TerminalFacts Detect();
};

// kAuto becomes kBar on a terminal, else kPlain. Under a launcher it is always kPlain: there a pipe
// may look like a terminal and a terminal like a pipe.
ProgressStyle ResolveProgressStyle(ProgressStyle requested, const TerminalFacts& facts);

// The state after one optimizer step. What is absent is not printed.
struct StepProgress {
  int64_t step = 0;
  int64_t max_steps = 0;                 // 0: not known
  double loss = 0;                       // nats per token
  std::optional<double> mean_loss = {};  // moving average
  bool has_perplexity = true;            // the loss is a cross-entropy
  std::optional<double> nll = {};        // what perplexity is of, where the loss has more in it
  std::optional<double> gradient_norm = {};
  std::optional<double> learning_rate = {};
  double step_seconds = 0;
  std::optional<double> data_fraction = {};  // of the step spent waiting for data, 0 to 1
  std::optional<double> comm_fraction = {};  // of the step spent waiting for other ranks, 0 to 1
  double tokens_per_second = 0;              // over all ranks
  std::optional<double> seconds_left = {};
  double seconds = 0;      // of training so far
  double max_seconds = 0;  // of a run that ends by time; 0: it does not
};

// "3.2s", "48s", "3m12s", "2h05m", "1d03h".
std::string FormatDuration(double seconds);
// "950", "41.2k", "1.30M".
std::string FormatCount(double count);
// The clock at `finish`, "14:05", with the weekday unless that is today: "Sun 14:05".
std::string FormatFinish(std::time_t now, std::time_t finish);
// `cells` wide, between two edges: "▕███▌    ▏" or "[###.....]".
std::string FormatBar(double fraction, int cells, bool use_unicode);

// "step 1200/20000 6.0%  loss 3.412 (mean 3.455)  ppl 30.3  gnorm 0.84  lr 7.1e-04  152 ms (data 1%
// comm 9%)  41.2k tok/s  ETA 48m (14:05)", on one line.
std::string FormatPlainLine(const StepProgress& progress, std::time_t now);
// The same with a bar, at most `columns` wide: the least important parts go first.
std::string FormatBarLine(const StepProgress& progress, std::time_t now,
                          const TerminalFacts& facts);

// The text, cut to so many columns of a terminal; what is cut ends in "...".
std::string CutToColumns(std::string_view text, int columns);

// How long the rest takes: mean step time, plus what evaluations and checkpoints have cost so far.
class RemainingTime {
 public:
  void AddStep(double seconds);
  // An interruption of training that happens every `every_steps` steps.
  void AddInterruption(std::string_view kind, double seconds, int64_t every_steps);
  // Nothing until a few steps are measured.
  std::optional<double> Seconds(int64_t steps_left) const;

 private:
  struct Interruption {
    double seconds = 0;
    int64_t count = 0;
    int64_t every_steps = 1;
  };

  int64_t steps_ = 0;
  double mean_ = 0;
  std::map<std::string, Interruption, std::less<>> interruptions_;
};

struct ProgressOptions {
  ProgressStyle style = ProgressStyle::kAuto;
  // A plain line at most every so many steps, and never more often than every ten seconds.
  int64_t log_every = 100;
  TerminalFacts terminal = TerminalFacts::Detect();
  // Receives the text (default: stderr), and the clock. Tests replace both.
  std::function<void(std::string_view)> write = {};
  std::function<double()> seconds = {};
};

// Prints; may be called from several threads.
class Progress {
 public:
  explicit Progress(const ProgressOptions& options);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Leaves the last state of a bar on the screen.
  ~Progress();

  // Redraws the bar at most ten times a second, or prints a plain line when one is due.
  void Update(const StepProgress& progress);
  // Prints a line above the bar, in every style but kNone.
  void Message(std::string_view line);
  // Columns of the terminal now; 120 where the text goes elsewhere.
  int columns() const;
  // Draws the last state and ends its line. Update() may be called again.
  void Finish();

 private:
  void DrawBar();
  void PrintPlain();

  const ProgressOptions options_;
  const ProgressStyle style_;
  std::mutex mutex_;
  std::optional<StepProgress> latest_;
  bool is_shown_ = false;     // the latest state is on the screen
  bool bar_is_open_ = false;  // the cursor stands at the end of a bar
  std::optional<double> last_output_;
  int64_t last_step_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_PROGRESS_H_
