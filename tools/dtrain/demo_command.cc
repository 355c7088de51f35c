// demo_command.cc - `dtrain demo`: trains on the sample texts, scores the model and translates.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/cpu_isa.h"
#include "dtrain/base/file.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/launch/run_on_ranks.h"
#include "tools/dtrain/child_process.h"
#include "tools/dtrain/commands.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kPreset = "nmt_train/configs/demo.textproto";
constexpr size_t kShownSentences = 5;

struct DemoFlags {
  std::string run = "runs/demo";
  double minutes = 5;
  int64_t ranks = 1;
  Words overrides = {};
};

StatusOr<fs::path> FolderOfPrograms() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return StorageError("/proc/self/exe: cannot be read: " + error.message());
  return program.parent_path();
}

// Installed programs have the presets beside their folder, those of a build in the project.
StatusOr<std::string> FindPreset(const fs::path& programs) {
  std::vector<std::string> tried;
  for (const char* const folder : {"../share/dtrain", "../../../examples"}) {
    const fs::path path = (programs / folder / kPreset).lexically_normal();
    std::error_code error;
    if (fs::exists(path, error)) return path.string();
    tried.push_back(path.string());
  }
  return UsageError(absl::StrCat("the demo's configuration is not installed: no file ",
                                 absl::StrJoin(tried, ", no file ")));
}

Words TrainingCommand(const DemoFlags& flags, const fs::path& programs, const std::string& preset) {
  Words command;
  if (flags.ranks > 1) {
    command = {"mpirun", "-n", absl::StrCat(flags.ranks)};
    // Open MPI wants to be told; no other launcher minds.
    if (flags.ranks > std::thread::hardware_concurrency())
      command.insert(command.begin() + 1, "--oversubscribe");
  }
  command.insert(command.end(), {(programs / "nmt_train").string(), "--config=" + preset,
                                 "run.run_dir=" + flags.run,
                                 absl::StrFormat("trainer.max_time=%.0fs", flags.minutes * 60)});
  // bfloat16 halves the time where the processor multiplies it natively; elsewhere it only costs.
  if (BestCpuIsa() >= CpuIsa::kAvx512Bf16) command.emplace_back("trainer.precision=bf16");
  command.insert(command.end(), flags.overrides.begin(), flags.overrides.end());
  return command;
}

// These return the exit code of the first program that failed, which has said why; or 0.
StatusOr<int> ShowTranslations(const DemoFlags& flags, const std::string& tool) {
  DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(flags.run + "/data/test.src"));
  Words sources = absl::StrSplit(text, absl::MaxSplits('\n', kShownSentences));
  sources.resize(std::min(sources.size(), kShownSentences));
  DT_ASSIGN_OR_RETURN(
      const ChildOutcome translated,
      RunFilter({tool, "translate", flags.run}, absl::StrJoin(sources, "\n") + "\n"));
  if (translated.exit_code != 0) return translated.exit_code;
  const Words translations = absl::StrSplit(translated.output, '\n');
  std::printf("\nSome sentences of it, and their translations:\n");
  for (size_t i = 0; i < sources.size() && i < translations.size(); ++i) {
    std::printf("  %s\n  %s\n", sources[i].c_str(), translations[i].c_str());
  }
  std::printf(
      "\nTranslate more:\n  echo \"Click the button.\" | dtrain translate %s\n"
      "Curves:\n  tensorboard --logdir %s       or read %s/metrics/*.jsonl\n",
      flags.run.c_str(), fs::path(flags.run).parent_path().c_str(), flags.run.c_str());
  return 0;
}

StatusOr<int> Demo(const DemoFlags& flags) {
  if (!(flags.minutes > 0)) return UsageError("--minutes must be more than 0");
  if (flags.ranks < 1) return UsageError("--ranks must be at least 1");
  DT_ASSIGN_OR_RETURN(const fs::path programs, FolderOfPrograms());
  DT_ASSIGN_OR_RETURN(const std::string preset, FindPreset(programs));
  const std::string tool = (programs / "dtrain").string();
  std::error_code error;
  if (fs::exists(flags.run + "/ckpt/last", error)) {
    std::printf("%s holds a run: it goes on there (--run=DIR starts another)\n", flags.run.c_str());
    std::fflush(stdout);
  }
  DT_ASSIGN_OR_RETURN(const ChildOutcome trained,
                      RunProgram(TrainingCommand(flags, programs, preset)));
  if (trained.exit_code != 0) return trained.exit_code;
  std::printf("\nThe test set, with four beams:\n");
  std::fflush(stdout);
  DT_ASSIGN_OR_RETURN(
      const ChildOutcome scored,
      RunProgram({tool, "eval", flags.run, absl::StrCat("--source=", flags.run, "/data/test.src"),
                  absl::StrCat("--reference=", flags.run, "/data/test.ref")}));
  if (scored.exit_code != 0) return scored.exit_code;
  return ShowTranslations(flags, tool);
}

StatusOr<int> ParseAndRun(int argc, char** argv, FlagSet& set, DemoFlags& flags) {
  DT_ASSIGN_OR_RETURN(flags.overrides, set.Parse(argc, argv));
  if (!set.help_wanted()) return Demo(flags);
  std::fputs(set.Help().c_str(), stdout);
  return 0;
}

}  // namespace

int DemoCommand(int argc, char** argv) {
  DemoFlags flags;
  FlagSet set("dtrain demo [FLAGS] [KEY=VALUE ...]",
              "trains a small English-German translator on the sample texts, scores it and shows "
              "translations; KEY=VALUE are settings of nmt_train");
  set.Add("run", "run directory; a run that is there goes on", &flags.run);
  set.Add("minutes", "how long to train", &flags.minutes);
  set.Add("ranks", "processes, started by mpirun if there are several", &flags.ranks);
  const StatusOr<int> exit_code = ParseAndRun(argc, argv, set, flags);
  return exit_code.ok() ? *exit_code : ReportAndGetExitCode(exit_code.status());
}

}  // namespace dtrain
