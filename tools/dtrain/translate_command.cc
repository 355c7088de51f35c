// translate_command.cc - `dtrain translate RUN < in > out`: a filter from text to text.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/tasks/translation/translation_model.h"
#include "dtrain/tasks/translation/translator.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/run_command.h"
#include "tools/dtrain/text_output.h"
#include "tools/dtrain/translation_flags.h"

namespace dtrain {
namespace {

struct TranslateFlags {
  TranslationFlags translation;
  int64_t n_best = 1;
  bool scores = false;
  int64_t window = 2000;
  std::string input = "-";
  std::string output = "-";
  std::string invalid = "replace";
  bool verbose = false;
  std::string model_path;  // the argument

  void AddTo(FlagSet& flags) {
    translation.AddTo(flags);
    flags.Add("n_best", "translations of each line, as \"line ||| text ||| score\", lines from 0",
              &n_best);
    flags.Add("scores", "append the score and log p to each line, tabs between", &scores);
    flags.Add("window", "lines read and sorted by length together; bounds the memory", &window);
    flags.Add("input", "file to read, plain, .gz or .zst; - is standard input", &input);
    flags.Add("output", "file to write; - is standard output", &output);
    flags.Add("invalid", "lines that are not UTF-8 or hold NUL bytes: replace, skip or fail",
              &invalid);
    flags.Add("verbose", "report the model and the speed on stderr", &verbose);
  }

  Status Check() const {
    DT_RETURN_IF_ERROR(translation.Check());
    DT_RETURN_IF_ERROR(CheckRange("n_best", n_best, 1, translation.beam_size));
    DT_RETURN_IF_ERROR(ParseInvalidText("--invalid", invalid).status());
    return CheckRange("window", window, 1, 10'000'000);
  }
};

std::string Format(const std::vector<Translation>& translations, int64_t line,
                   const TranslateFlags& flags) {
  if (flags.n_best == 1) {
    const Translation& best = translations.front();
    if (!flags.scores) return best.text + "\n";
    return absl::StrFormat("%s\t%.4f\t%.4f\n", best.text, best.score, best.log_probability);
  }
  std::string text;
  for (const Translation& translation : translations) {
    text += absl::StrFormat("%d ||| %s ||| %.4f", line, translation.text, translation.score);
    text += flags.scores ? absl::StrFormat(" ||| %.4f\n", translation.log_probability) : "\n";
  }
  return text;
}

// Lines of the input to be named at the end, with their number.
struct NotedLines {
  static constexpr size_t kNamed = 5;
  int64_t count = 0;
  std::vector<int64_t> first;  // numbers from 1

  void Add(const std::vector<int64_t>& indices, int64_t lines_before) {
    count += static_cast<int64_t>(indices.size());
    for (const int64_t index : indices) {
      if (first.size() < kNamed) first.push_back(lines_before + index + 1);
    }
  }
  // "2 lines (3, 8) were".
  std::string Describe(const char* one, const char* many) const {
    return absl::StrFormat(
        "%d line%s (%s%s) %s", count, count == 1 ? "" : "s", absl::StrJoin(first, ", "),
        count > static_cast<int64_t>(first.size()) ? ", ..." : "", count == 1 ? one : many);
  }
};

Status Translate(const TranslateFlags& flags, Runtime& runtime) {
  if (runtime.comm.size() > 1) {
    return UsageError("dtrain translate is one process: start it without mpirun (see --threads)");
  }
  DT_RETURN_IF_ERROR(CheckTextOutput(flags.output, std::array{flags.input}));
  DT_ASSIGN_OR_RETURN(
      const TranslationModel trained,
      LoadTranslationModel(flags.model_path, flags.translation.LoadOptions(runtime.device)));
  DT_ASSIGN_OR_RETURN(const InvalidText invalid, ParseInvalidText("--invalid", flags.invalid));
  DT_ASSIGN_OR_RETURN(TextReader reader, TextReader::OpenInput(flags.input, {.invalid = invalid}));
  DT_ASSIGN_OR_RETURN(TextOutput output, TextOutput::Open(flags.output));
  if (flags.verbose) {
    std::fprintf(stderr, "model %s, step %lld, %d threads\n", trained.path.c_str(),
                 static_cast<long long>(trained.step), runtime.threads);
  }
  Context ctx(runtime.device, {.compute_type = trained.compute_type});
  BeamSearchOptions search = flags.translation.SearchOptions(trained);
  search.n_best = static_cast<int>(flags.n_best);
  const Timer timer;
  int64_t num_lines = 0;
  NotedLines cut;
  NotedLines unknown;
  std::vector<std::string> lines;
  for (;;) {
    DT_RETURN_IF_ERROR(reader.NextLines(flags.window, lines));
    if (lines.empty()) break;
    LineNotes notes;
    const auto translations =
        TranslateLines(*trained.model, trained.tokenizer, lines, search, ctx, &notes);
    cut.Add(notes.cut, num_lines);
    unknown.Add(notes.unknown, num_lines);
    std::string text;
    for (const std::vector<Translation>& of_line : translations) {
      text += Format(of_line, num_lines++, flags);
    }
    DT_RETURN_IF_ERROR(output.Write(text));
  }
  DT_RETURN_IF_ERROR(output.Close());
  if (const std::string invalid_lines = reader.DescribeInvalid(); !invalid_lines.empty()) {
    LogWarning(invalid_lines);
  }
  if (cut.count > 0) {
    LogWarning(absl::StrFormat("%s cut to the model's %d pieces", cut.Describe("was", "were"),
                               trained.model->options().max_positions - 1));
  }
  if (unknown.count > 0) {
    LogWarning(absl::StrFormat("%s characters that the vocabulary lacks and no translation has",
                               unknown.Describe("has", "have")));
  }
  if (flags.verbose) {
    const double seconds = timer.Seconds();
    std::fprintf(stderr, "%lld lines in %.2f s: %.1f lines/s\n", static_cast<long long>(num_lines),
                 seconds, static_cast<double>(num_lines) / seconds);
  }
  return OkStatus();
}

Status ParseTranslateFlags(int argc, char** argv, FlagSet& set, TranslateFlags& flags) {
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> positional, set.Parse(argc, argv));
  if (set.help_wanted()) return OkStatus();
  if (positional.size() != 1) {
    return UsageError(
        "give one run directory or checkpoint: dtrain translate RUN < in > out; a file to read is "
        "--input=FILE, one to write --output=FILE");
  }
  flags.model_path = positional.front();
  return flags.Check();
}

}  // namespace

int TranslateCommand(int argc, char** argv) {
  TranslateFlags flags;
  FlagSet set("dtrain translate RUN_OR_CHECKPOINT [FLAGS] < in > out",
              "translates lines of text with a trained model, in their order; empty lines stay "
              "empty");
  flags.AddTo(set);
  const Status parsed = ParseTranslateFlags(argc, argv, set, flags);
  return RunCommand(argc, argv, set, parsed,
                    {.threads = static_cast<int>(flags.translation.threads)},
                    [&](Runtime& runtime) { return Translate(flags, runtime); });
}

}  // namespace dtrain
