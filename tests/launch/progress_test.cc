// progress_test.cc - the progress line: its text, its width, and how often it comes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/progress.h"

#include <stdlib.h>

#include <cmath>
#include <limits>

#include "testing/catch.h"

namespace dtrain {
namespace {

constexpr std::time_t kNow = 1795262400;  // Saturday 2026-11-21 12:00 UTC

// Clock times in tests are those of Greenwich.
struct InUtc {
  InUtc() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

StepProgress SomeProgress() {
  return {.step = 1200,
          .max_steps = 20000,
          .loss = 3.412,
          .mean_loss = 3.455,
          .gradient_norm = 0.84,
          .learning_rate = 7.1e-4,
          .step_seconds = 0.152,
          .data_fraction = 0.01,
          .comm_fraction = 0.09,
          .tokens_per_second = 41234,
          .seconds_left = 2880};
}

TEST_CASE("the plain line says everything") {
  const InUtc utc;
  CHECK(FormatPlainLine(SomeProgress(), kNow) ==
        "step 1200/20000 6.0%  loss 3.412 (mean 3.455)  ppl 31.66  gnorm 0.84  lr 7.1e-04  152 ms "
        "(data 1% comm 9%)  41.2k tok/s  ETA 48m00s (12:48)");
}

TEST_CASE("what is not known is not printed") {
  const StepProgress progress{.step = 7, .loss = 2, .step_seconds = 12.4, .tokens_per_second = 950};
  CHECK(FormatPlainLine(progress, kNow) == "step 7  loss 2.000  ppl 7.389  12s  950 tok/s");
  StepProgress values = progress;
  values.has_perplexity = false;
  CHECK(FormatPlainLine(values, kNow) == "step 7  loss 2.000  12s  950 tok/s");
}

TEST_CASE("a run that ends by time has a percentage and a bar, too") {
  const InUtc utc;
  StepProgress progress{.step = 410, .loss = 4.629, .step_seconds = 0.1, .tokens_per_second = 950};
  progress.seconds = 75;
  progress.max_seconds = 300;
  CHECK_THAT(FormatPlainLine(progress, kNow), Catch::StartsWith("step 410 25.0%  loss 4.629"));
  const TerminalFacts facts{.use_color = true, .use_unicode = false, .columns = 80};
  CHECK_THAT(FormatBarLine(progress, kNow, facts),
             Catch::StartsWith("step 410 \x1b[32m[#####...............]\x1b[0m 25%  loss"));
  // The limit that is reached first counts.
  progress.max_steps = 500;
  CHECK_THAT(FormatPlainLine(progress, kNow), Catch::StartsWith("step 410/500 82.0%"));
  progress.max_steps = 0;
  progress.seconds = 301;
  CHECK_THAT(FormatPlainLine(progress, kNow), Catch::StartsWith("step 410 100.0%"));
}

TEST_CASE("a run that diverges has short numbers, and nan without a sign") {
  StepProgress progress{.step = 7, .loss = 132.6, .step_seconds = 1, .tokens_per_second = 950};
  progress.gradient_norm = -std::numeric_limits<double>::quiet_NaN();
  CHECK(FormatPlainLine(progress, kNow) ==
        "step 7  loss 132.600  ppl 3.868e+57  gnorm nan  1000 ms  950 tok/s");
  progress.loss = -std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(FormatPlainLine(progress, kNow), Catch::Contains("loss nan  ppl nan"));
}

TEST_CASE("a text is cut to the columns of a terminal, wide characters counted") {
  CHECK(CutToColumns("12345", 5) == "12345");
  CHECK(CutToColumns("123456", 5) == "12...");
  CHECK(CutToColumns("äöüßéè", 5) == "äö...");
  CHECK(CutToColumns("日本語", 6) == "日本語");
  CHECK(CutToColumns("日本語で", 6) == "日...");
  CHECK(CutToColumns("", 5).empty());
}

TEST_CASE("durations, counts and clock times are short") {
  const InUtc utc;
  CHECK(FormatDuration(3.21) == "3.2s");
  CHECK(FormatDuration(9.97) == "10s");
  CHECK(FormatDuration(59.6) == "1m00s");
  CHECK(FormatDuration(192) == "3m12s");
  CHECK(FormatDuration(7500) == "2h05m");
  CHECK(FormatDuration(97200) == "1d03h");
  CHECK(FormatDuration(NAN) == "?");
  CHECK(FormatCount(999) == "999");
  CHECK(FormatCount(999.7) == "1k");
  CHECK(FormatCount(41234) == "41.2k");
  CHECK(FormatCount(1.3e6) == "1.3M");
  CHECK(FormatFinish(kNow, kNow + 3600) == "13:00");
  CHECK(FormatFinish(kNow, kNow + 86400) == "Sun 12:00");
  CHECK(FormatFinish(kNow, kNow + 10 * 86400) == "2026-12-01 12:00");
}

TEST_CASE("perplexity is of the likelihood alone where the loss has more in it") {
  StepProgress progress = {.step = 7, .loss = 2.7, .step_seconds = 12.4, .tokens_per_second = 950};
  progress.nll = 2.0;
  CHECK(FormatPlainLine(progress, kNow) == "step 7  loss 2.700  ppl 7.389  12s  950 tok/s");
}

TEST_CASE("a bar fills by eighths of a cell") {
  CHECK(FormatBar(0, 4, true) == "▕    ▏");
  CHECK(FormatBar(0.40625, 4, true) == "▕█▋  ▏");
  CHECK(FormatBar(1, 4, true) == "▕████▏");
  CHECK(FormatBar(7, 4, true) == "▕████▏");
  CHECK(FormatBar(NAN, 4, true) == "▕    ▏");
  CHECK(FormatBar(0.5, 4, false) == "[##..]");
}

TEST_CASE("a bar line never exceeds the terminal and drops the least important first") {
  const InUtc utc;
  TerminalFacts facts{.use_color = false, .use_unicode = false, .columns = 200};
  CHECK(
      FormatBarLine(SomeProgress(), kNow, facts) ==
      "step 1200/20000 [#...................] 6%  loss 3.412 (mean 3.455)  ppl 31.66  gnorm 0.84  "
      "lr 7.1e-04  152 ms (data 1% comm 9%)  41.2k tok/s  ETA 48m00s (12:48)");
  facts.columns = 90;
  CHECK(FormatBarLine(SomeProgress(), kNow, facts) ==
        "step 1200/20000 [#...................] 6%  loss 3.412 (mean 3.455)  ETA 48m00s (12:48)");
  for (int columns = 1; columns < 200; ++columns) {
    facts.columns = columns;
    const std::string line = FormatBarLine(SomeProgress(), kNow, facts);
    CHECK((static_cast<int>(line.size()) < columns || line == "step 1200/20000"));
  }
}

TEST_CASE("colour is for the bar alone and off by request") {
  TerminalFacts facts{.use_color = true, .use_unicode = false, .columns = 60};
  CHECK_THAT(FormatBarLine(SomeProgress(), kNow, facts),
             Catch::Contains("\x1b[32m[#...................]\x1b[0m 6%"));
  facts.use_color = false;
  CHECK_THAT(FormatBarLine(SomeProgress(), kNow, facts), !Catch::Contains("\x1b"));
}

TEST_CASE("a bar is for terminals, never under a launcher") {
  TerminalFacts facts{.stderr_is_terminal = true};
  CHECK(ResolveProgressStyle(ProgressStyle::kAuto, facts) == ProgressStyle::kBar);
  facts.under_launcher = true;
  CHECK(ResolveProgressStyle(ProgressStyle::kAuto, facts) == ProgressStyle::kPlain);
  CHECK(ResolveProgressStyle(ProgressStyle::kBar, facts) == ProgressStyle::kBar);
  facts = {.stderr_is_terminal = true, .is_dumb = true};
  CHECK(ResolveProgressStyle(ProgressStyle::kAuto, facts) == ProgressStyle::kPlain);
  CHECK(ResolveProgressStyle(ProgressStyle::kAuto, {}) == ProgressStyle::kPlain);
}

TEST_CASE("the environment of a launcher and NO_COLOR are seen") {
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    ::unsetenv(name);
  }
  CHECK_FALSE(TerminalFacts::Detect().under_launcher);
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    ::setenv(name, "0", 1);
    CHECK(TerminalFacts::Detect().under_launcher);
    ::unsetenv(name);
  }
  ::setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(TerminalFacts::Detect().use_color);
  ::unsetenv("NO_COLOR");
  CHECK(TerminalFacts::Detect().use_color);
}

TEST_CASE("an unknown style is refused with exit code 2") {
  CHECK(*ParseProgressStyle("plain") == ProgressStyle::kPlain);
  const Status status = ParseProgressStyle("fancy").status();
  CHECK(status.code() == ExitCode::kUsage);
  CHECK(status.message() == "--progress=fancy: choose auto, bar, plain or none");
}

TEST_CASE("the remaining time counts evaluations and checkpoints") {
  RemainingTime time;
  for (int i = 0; i < 4; ++i) time.AddStep(0.5);
  CHECK_FALSE(time.Seconds(100).has_value());
  time.AddStep(0.5);
  CHECK(*time.Seconds(100) == Approx(50));
  time.AddInterruption("eval", 8, 40);
  time.AddInterruption("eval", 12, 40);
  time.AddInterruption("checkpoint", 1, 100);
  CHECK(*time.Seconds(100) == Approx(50 + 2 * 10 + 1));
  CHECK(*time.Seconds(0) == 0);
}

// A progress line whose clock and screen the test holds.
struct Screen {
  double now = 0;
  std::string text;

  ProgressOptions Options(ProgressStyle style) {
    return {.style = style,
            .log_every = 100,
            .terminal = {.use_color = false, .use_unicode = false, .columns = 40},
            .write = [this](std::string_view part) { text += part; },
            .seconds = [this] { return now; }};
  }
};

int64_t CountOf(const std::string& text, char c) { return std::count(text.begin(), text.end(), c); }

TEST_CASE("plain lines come at most every ten seconds and log_every steps") {
  Screen screen;
  Progress progress(screen.Options(ProgressStyle::kPlain));
  StepProgress state = SomeProgress();
  for (state.step = 1; state.step <= 1000; ++state.step) {
    screen.now += 0.5;  // log_every is 50 s
    progress.Update(state);
  }
  CHECK(CountOf(screen.text, '\n') == 10);
  screen.text.clear();
  for (; state.step <= 11000; ++state.step) {
    screen.now += 0.01;  // log_every is 1 s
    progress.Update(state);
  }
  CHECK(CountOf(screen.text, '\n') == 10);
  CHECK(CountOf(screen.text, '\r') == 0);
}

TEST_CASE("a bar is redrawn ten times a second on one line") {
  Screen screen;
  StepProgress state = SomeProgress();
  {
    Progress progress(screen.Options(ProgressStyle::kBar));
    for (int i = 0; i < 1000; ++i) {
      screen.now += 0.005;
      ++state.step;
      progress.Update(state);
    }
    CHECK(CountOf(screen.text, '\n') == 0);
    CHECK(CountOf(screen.text, '\r') == Approx(50).margin(1));
  }
  CHECK_THAT(screen.text, Catch::EndsWith("\x1b[Kstep 2200/20000\n"));
}

TEST_CASE("a message stands above the bar") {
  Screen screen;
  Progress progress(screen.Options(ProgressStyle::kBar));
  progress.Update({.step = 1, .loss = 1});
  screen.text.clear();
  progress.Message("saved");
  CHECK_THAT(screen.text, Catch::StartsWith("\r\x1b[Ksaved\n\r\x1b[Kstep 1  loss 1.000"));
}

TEST_CASE("the last state is printed at the end and nothing in style none") {
  Screen screen;
  {
    Progress progress(screen.Options(ProgressStyle::kPlain));
    progress.Update({.step = 1});
    progress.Update({.step = 2});
  }
  CHECK(CountOf(screen.text, '\n') == 2);
  CHECK_THAT(screen.text, Catch::Contains("\nstep 2  "));
  screen.text.clear();
  {
    Progress progress(screen.Options(ProgressStyle::kNone));
    progress.Update({.step = 1});
    progress.Message("saved");
  }
  CHECK(screen.text.empty());
}

}  // namespace
}  // namespace dtrain
