// top_command.cc - `dtrain top RUN`: how a run stands, drawn again and again from its files.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/file.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/launch/progress.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/report/run_facts.h"
#include "dtrain/report/run_report.h"
#include "dtrain/report/run_screen.h"
#include "tools/dtrain/commands.h"

namespace dtrain {
namespace {

// Set by signals.
volatile std::sig_atomic_t& HasEnded() {
  static volatile std::sig_atomic_t ended = 0;
  return ended;
}

void End(int /*signal*/) { HasEnded() = 1; }

int TerminalRows() {
  constexpr int kUsual = 24;
  winsize size{};
  const bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return is_known ? size.ws_row : kUsual;
}

// The terminal, on a screen of its own and without echo, until it ends.
class Screen {
 public:
  Screen() {
    struct sigaction action {};
    action.sa_handler = End;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
    has_keys_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    if (has_keys_) {
      termios keys = before_;
      keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    }
    Write("\033[?1049h\033[?25l");
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() {
    Write("\033[?25h\033[?1049l");
    if (has_keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  static void Draw(const std::vector<std::string>& lines, int columns) {
    std::string text = "\033[H";
    for (const std::string& line : lines) text += CutToColumns(line, columns) + "\033[K\r\n";
    Write(text + "\033[J");
  }
  // Returns true where it is to end: by q, or by a signal.
  bool Wait(double seconds) const {
    pollfd keys{.fd = has_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
    if (::poll(&keys, 1, static_cast<int>(1e3 * seconds)) <= 0) return HasEnded() != 0;
    char key = 0;
    const ssize_t read = ::read(STDIN_FILENO, &key, 1);
    return HasEnded() != 0 || read <= 0 || key == 'q';
  }

 private:
  static void Write(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  termios before_ = {};
  bool has_keys_ = false;
};

StatusOr<std::vector<std::string>> LinesOf(const std::string& run, const ScreenOptions& options) {
  DT_ASSIGN_OR_RETURN(RunFacts facts, ReadRun(run));
  return RunScreen(MakeReport(std::move(facts)), options);
}

Status Watch(const std::string& run, double seconds) {
  // Reading takes at most a tenth of the time: a run of a million updates is read for seconds.
  constexpr double kPause = 10.0;
  using Clock = std::chrono::steady_clock;
  // What is no run is told before the screen changes.
  DT_RETURN_IF_ERROR(LinesOf(run, {}).status());
  const Screen screen;
  for (;;) {
    const TerminalFacts terminal = TerminalFacts::Detect();
    const auto begin = Clock::now();
    const int rows = TerminalRows();
    DT_ASSIGN_OR_RETURN(const std::vector<std::string> lines,
                        LinesOf(run, {.columns = static_cast<size_t>(terminal.columns),
                                      .rows = static_cast<size_t>(std::max(rows - 1, 5)),
                                      .use_unicode = terminal.use_unicode}));
    Screen::Draw(lines, terminal.columns);
    const double took = std::chrono::duration<double>(Clock::now() - begin).count();
    if (screen.Wait(std::max(seconds, kPause * took))) return OkStatus();
  }
}

Status Top(int argc, char** argv, FlagSet& flags, const double& seconds, const bool& once) {
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> runs, flags.Parse(argc, argv));
  if (flags.help_wanted()) return WriteStdout(flags.Help());
  if (runs.size() != 1) return UsageError("give one run directory: dtrain top RUN");
  if (!(seconds >= 0.1)) return UsageError("--seconds must be at least 0.1");
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  if (is_terminal && !once) return Watch(runs.front(), seconds);
  constexpr size_t kMostRows = 200;
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> lines,
                      LinesOf(runs.front(), {.columns = 120, .rows = kMostRows}));
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return WriteStdout(text);
}

}  // namespace

int TopCommand(int argc, char** argv) {
  double seconds = 2.0;
  bool once = false;
  FlagSet flags("dtrain top RUN",
                "shows how a run stands, from its files: progress, curves, times of the ranks, "
                "what to change, last events. q ends it. Where the output is no terminal it "
                "prints once");
  flags.Add("seconds", "between two drawings", &seconds);
  flags.Add("once", "print once and end", &once);
  const Status status = Top(argc, argv, flags, seconds, once);
  return status.ok() ? 0 : ReportAndGetExitCode(status);
}

}  // namespace dtrain
