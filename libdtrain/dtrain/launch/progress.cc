// progress.cc - formats the progress line and decides when to print it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/timer.h"

namespace dtrain {
namespace {

constexpr double kBarSeconds = 0.1;
constexpr double kPlainSeconds = 10;
constexpr int kBarCells = 20;
constexpr int64_t kStepsBeforeEstimate = 5;
// The mean follows the last hundred steps or so.
constexpr double kSmoothing = 0.02;
constexpr char kClearLine[] = "\r\x1b[K";

std::string VariableOrEmpty(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool LocaleIsUtf8() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = VariableOrEmpty(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

// How much of the run is done, by the limit that is reached first; nothing where neither is known.
std::optional<double> Fraction(const StepProgress& progress) {
  double fraction = -1;
  if (progress.max_steps > 0) {
    fraction = static_cast<double>(progress.step) / static_cast<double>(progress.max_steps);
  }
  if (progress.max_seconds > 0) {
    fraction = std::max(fraction, progress.seconds / progress.max_seconds);
  }
  if (fraction < 0) return std::nullopt;
  return std::min(fraction, 1.0);
}

// A part of the line; of two, the one with the larger rank is dropped first on a narrow terminal.
struct Part {
  std::string text;
  int rank = 0;
};

std::string StepText(const StepProgress& progress) {
  return progress.max_steps > 0 ? absl::StrFormat("step %d/%d", progress.step, progress.max_steps)
                                : absl::StrFormat("step %d", progress.step);
}

std::string TimeText(const StepProgress& progress) {
  std::string text = progress.step_seconds < 10
                         ? absl::StrFormat("%.0f ms", progress.step_seconds * 1e3)
                         : FormatDuration(progress.step_seconds);
  std::string split;
  if (progress.data_fraction) split = absl::StrFormat("data %.0f%%", *progress.data_fraction * 100);
  if (progress.comm_fraction) {
    split +=
        absl::StrFormat("%scomm %.0f%%", split.empty() ? "" : " ", *progress.comm_fraction * 100);
  }
  return split.empty() ? text : text + " (" + split + ")";
}

// Everything behind the step, in the order of the line.
std::vector<Part> MeasuredParts(const StepProgress& progress, std::time_t now) {
  std::vector<Part> parts;
  std::string loss = "loss " + FormatNumber(progress.loss, 3);
  if (progress.mean_loss) loss += " (mean " + FormatNumber(*progress.mean_loss, 3) + ")";
  parts.push_back({loss, 1});
  if (progress.has_perplexity) {
    const double nll = progress.nll.value_or(progress.mean_loss.value_or(progress.loss));
    parts.push_back({std::isnan(nll) ? "ppl nan" : absl::StrFormat("ppl %.4g", std::exp(nll)), 4});
  }
  if (progress.gradient_norm) {
    parts.push_back({"gnorm " + FormatNumber(*progress.gradient_norm, 2), 7});
  }
  if (progress.learning_rate) {
    parts.push_back({absl::StrFormat("lr %.1e", *progress.learning_rate), 6});
  }
  parts.push_back({TimeText(progress), 5});
  parts.push_back({FormatCount(progress.tokens_per_second) + " tok/s", 3});
  if (progress.seconds_left) {
    const auto finish = now + static_cast<std::time_t>(std::llround(*progress.seconds_left));
    parts.push_back({absl::StrFormat("ETA %s (%s)", FormatDuration(*progress.seconds_left),
                                     FormatFinish(now, finish)),
                     2});
  }
  return parts;
}

// Columns that UTF-8 text takes, where every character is one wide.
int Width(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string Join(const std::vector<Part>& parts) {
  std::string line;
  for (const Part& part : parts) line += (line.empty() ? "" : "  ") + part.text;
  return line;
}

}  // namespace

StatusOr<ProgressStyle> ParseProgressStyle(std::string_view text) {
  if (text == "auto") return ProgressStyle::kAuto;
  if (text == "bar") return ProgressStyle::kBar;
  if (text == "plain") return ProgressStyle::kPlain;
  if (text == "none") return ProgressStyle::kNone;
  return UsageError(
      absl::StrFormat("--progress=%s: choose auto, bar, plain or none", ToAbsl(text)));
}

TerminalFacts TerminalFacts::Detect() {
  TerminalFacts facts;
  facts.stderr_is_terminal = ::isatty(STDERR_FILENO) == 1;
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    facts.under_launcher |= std::getenv(name) != nullptr;
  }
  const std::string terminal = VariableOrEmpty("TERM");
  facts.is_dumb = terminal.empty() || terminal == "dumb";
  facts.use_color = VariableOrEmpty("NO_COLOR").empty();
  facts.use_unicode = LocaleIsUtf8();
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    facts.columns = size.ws_col;
  }
  return facts;
}

ProgressStyle ResolveProgressStyle(ProgressStyle requested, const TerminalFacts& facts) {
  if (requested != ProgressStyle::kAuto) return requested;
  const bool bar = facts.stderr_is_terminal && !facts.under_launcher && !facts.is_dumb;
  return bar ? ProgressStyle::kBar : ProgressStyle::kPlain;
}

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 9.95) return absl::StrFormat("%.1fs", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return absl::StrFormat("%ds", whole);
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  if (whole < 86400) return absl::StrFormat("%dh%02dm", whole / 3600, whole % 3600 / 60);
  return absl::StrFormat("%dd%02dh", whole / 86400, whole % 86400 / 3600);
}

std::string FormatCount(double count) {
  if (count < 999.5) return absl::StrFormat("%.0f", count);
  if (count < 999.5e3) return absl::StrFormat("%.3gk", count / 1e3);
  return absl::StrFormat("%.3gM", count / 1e6);
}

std::string FormatFinish(std::time_t now, std::time_t finish) {
  std::tm today{};
  std::tm then{};
  ::localtime_r(&now, &today);
  ::localtime_r(&finish, &then);
  const bool same_day = today.tm_year == then.tm_year && today.tm_yday == then.tm_yday;
  const bool same_week = finish - now < 6 * 86400;
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(),
                same_day ? "%H:%M" : (same_week ? "%a %H:%M" : "%Y-%m-%d %H:%M"), &then);
  return text.data();
}

std::string FormatBar(double fraction, int cells, bool use_unicode) {
  const double clamped = std::clamp(std::isnan(fraction) ? 0.0 : fraction, 0.0, 1.0);
  if (!use_unicode) {
    std::string bar(static_cast<size_t>(cells) + 2, '.');
    bar.replace(1, static_cast<size_t>(clamped * cells), static_cast<size_t>(clamped * cells), '#');
    bar.front() = '[';
    bar.back() = ']';
    return bar;
  }
  constexpr std::array<const char*, 8> kEighths = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(clamped * cells * 8);
  std::string bar = "▕";
  for (int cell = 0; cell < cells; ++cell) {
    const int filled = std::clamp(eighths - 8 * cell, 0, 8);
    bar += filled == 8 ? "█" : kEighths[static_cast<size_t>(filled)];
  }
  return bar + "▏";
}

std::string FormatPlainLine(const StepProgress& progress, std::time_t now) {
  std::string line = StepText(progress);
  if (const auto fraction = Fraction(progress)) line += absl::StrFormat(" %.1f%%", *fraction * 100);
  return line + "  " + Join(MeasuredParts(progress, now));
}

std::string FormatBarLine(const StepProgress& progress, std::time_t now,
                          const TerminalFacts& facts) {
  std::vector<Part> parts = MeasuredParts(progress, now);
  std::string bar;
  std::string head = StepText(progress);
  if (const auto fraction = Fraction(progress)) {
    bar = FormatBar(*fraction, kBarCells, facts.use_unicode);
    head += " " + bar + absl::StrFormat(" %.0f%%", std::floor(*fraction * 100));
  }
  parts.insert(parts.begin(), {head, 0});
  // The last column stays free: some terminals wrap when it is written.
  while (parts.size() > 1 && Width(Join(parts)) > facts.columns - 1) {
    parts.erase(std::max_element(parts.begin(), parts.end(),
                                 [](const Part& a, const Part& b) { return a.rank < b.rank; }));
  }
  if (Width(head) > facts.columns - 1) return StepText(progress);
  std::string line = Join(parts);
  if (facts.use_color && !bar.empty()) {
    line.replace(line.find(bar), bar.size(), "\x1b[32m" + bar + "\x1b[0m");
  }
  return line;
}

std::string CutToColumns(std::string_view text, int columns) {
  constexpr std::string_view kDots = "...";
  std::string cut;
  size_t end_with_dots = 0;  // where the text would be cut to make room for them
  int width = 0;
  const auto* p = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (auto left = static_cast<utf8proc_ssize_t>(text.size()); left > 0;) {
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t bytes = std::max<utf8proc_ssize_t>(utf8proc_iterate(p, left, &c), 1);
    width += c < 0 ? 1 : utf8proc_charwidth(c);
    if (width <= columns - static_cast<int>(kDots.size())) {
      end_with_dots = cut.size() + static_cast<size_t>(bytes);
    }
    if (width > columns) return cut.substr(0, end_with_dots) + std::string(kDots);
    cut.append(reinterpret_cast<const char*>(p), static_cast<size_t>(bytes));
    p += bytes;
    left -= bytes;
  }
  return cut;
}

void RemainingTime::AddStep(double seconds) {
  ++steps_;
  // A plain mean at first, then a moving one.
  mean_ += (seconds - mean_) * std::max(kSmoothing, 1.0 / static_cast<double>(steps_));
}

void RemainingTime::AddInterruption(std::string_view kind, double seconds, int64_t every_steps) {
  Interruption& interruption = interruptions_[std::string(kind)];
  interruption.seconds += seconds;
  ++interruption.count;
  interruption.every_steps = std::max<int64_t>(1, every_steps);
}

std::optional<double> RemainingTime::Seconds(int64_t steps_left) const {
  if (steps_ < kStepsBeforeEstimate) return std::nullopt;
  double seconds = mean_ * static_cast<double>(steps_left);
  for (const auto& [kind, interruption] : interruptions_) {
    const int64_t times = steps_left / interruption.every_steps;
    seconds +=
        interruption.seconds / static_cast<double>(interruption.count) * static_cast<double>(times);
  }
  return seconds;
}

namespace {

ProgressOptions WithDefaults(ProgressOptions options) {
  if (!options.write) {
    options.write = [](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stderr);
      std::fflush(stderr);
    };
  }
  if (!options.seconds) {
    options.seconds = [timer = Timer()] { return timer.Seconds(); };
  }
  return options;
}

}  // namespace

Progress::Progress(const ProgressOptions& options)
    : options_(WithDefaults(options)),
      style_(ResolveProgressStyle(options.style, options.terminal)) {}

Progress::~Progress() { Finish(); }

void Progress::Update(const StepProgress& progress) {
  const std::lock_guard lock(mutex_);
  latest_ = progress;
  is_shown_ = false;
  const double now = options_.seconds();
  const double since = last_output_ ? now - *last_output_ : HUGE_VAL;
  if (style_ == ProgressStyle::kBar && since >= kBarSeconds) {
    last_output_ = now;
    DrawBar();
  }
  const bool due = !last_output_ || progress.step - last_step_ >= options_.log_every;
  if (style_ == ProgressStyle::kPlain && due && since >= kPlainSeconds) {
    last_output_ = now;
    PrintPlain();
  }
}

void Progress::Message(std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (style_ == ProgressStyle::kNone) return;
  std::string text = bar_is_open_ ? kClearLine : "";
  text += line;
  text += '\n';
  options_.write(text);
  if (bar_is_open_) DrawBar();
}

void Progress::Finish() {
  const std::lock_guard lock(mutex_);
  if (latest_ && !is_shown_) {
    if (style_ == ProgressStyle::kBar) DrawBar();
    if (style_ == ProgressStyle::kPlain) PrintPlain();
  }
  if (bar_is_open_) options_.write("\n");
  bar_is_open_ = false;
}

int Progress::columns() const {
  constexpr int kElsewhere = 120;
  if (!options_.terminal.stderr_is_terminal) return kElsewhere;
  winsize size{};
  // Terminals are resized while a run goes on.
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : options_.terminal.columns;
}

void Progress::DrawBar() {
  TerminalFacts facts = options_.terminal;
  if (facts.stderr_is_terminal) facts.columns = columns();
  options_.write(kClearLine + FormatBarLine(*latest_, std::time(nullptr), facts));
  bar_is_open_ = true;
  is_shown_ = true;
}

void Progress::PrintPlain() {
  options_.write(FormatPlainLine(*latest_, std::time(nullptr)) + "\n");
  last_step_ = latest_->step;
  is_shown_ = true;
}

}  // namespace dtrain
