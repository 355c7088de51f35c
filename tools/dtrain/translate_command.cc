// translate_command.cc - `dtrain translate RUN < in > out`: a filter from text to text.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/tasks/pretraining/sentences.h"
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
  bool split_sentences = false;
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
    flags.Add("split_sentences", "translate each sentence of a line by itself", &split_sentences);
    flags.Add("verbose", "report the model and the speed on stderr", &verbose);
  }

  Status Check() const {
    DT_RETURN_IF_ERROR(translation.Check());
    DT_RETURN_IF_ERROR(CheckRange("n_best", n_best, 1, translation.beam_size.value_or(1000)));
    DT_RETURN_IF_ERROR(ParseInvalidText("--invalid", invalid).status());
    if (split_sentences && (n_best > 1 || scores)) {
      return UsageError(
          "--split_sentences joins translations, which have no score together; give it without "
          "--n_best and --scores");
    }
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
  int64_t last = 0;
  std::vector<int64_t> first;  // numbers from 1

  // A line that was the last one counts once.
  void Add(int64_t number) {
    if (number == last) return;
    last = number;
    ++count;
    if (first.size() < kNamed) first.push_back(number);
  }
  // "2 lines (3, 8) were".
  std::string Describe(const char* one, const char* many) const {
    return absl::StrFormat(
        "%d line%s (%s%s) %s", count, count == 1 ? "" : "s", absl::StrJoin(first, ", "),
        count > static_cast<int64_t>(first.size()) ? ", ..." : "", count == 1 ? one : many);
  }
};

// The texts that a window of lines is translated as: the lines, or their sentences.
struct Texts {
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;  // of their lines, from 1
};

Texts TextsOf(std::vector<std::string>& lines, int64_t lines_before, bool split_sentences) {
  Texts result;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::vector<std::string_view> sentences;
    if (split_sentences) SplitSentences(lines[i], sentences);
    // A line without a sentence is translated all the same, to an empty one.
    if (sentences.empty()) sentences.push_back(lines[i]);
    for (const std::string_view sentence : sentences) {
      result.texts.emplace_back(sentence);
      result.numbers.push_back(lines_before + static_cast<int64_t>(i) + 1);
    }
  }
  return result;
}

// What is said at the end of lines that the model did not see as they are.
class Notes {
 public:
  explicit Notes(const TranslationModel& trained) : trained_(trained) {}

  void Add(const LineNotes& notes, const std::vector<int64_t>& numbers) {
    for (const int64_t i : notes.cut) cut_.Add(numbers[static_cast<size_t>(i)]);
    for (const int64_t i : notes.unknown) unknown_.Add(numbers[static_cast<size_t>(i)]);
    for (size_t i = 0; i < notes.pieces.size(); ++i) {
      const bool is_cut = notes.pieces[i] >= trained_.model->options().max_positions;
      if (notes.pieces[i] > trained_.max_length && !is_cut) longer_.Add(numbers[i]);
    }
  }

  void Warn(bool has_split) const {
    if (longer_.count > 0) {
      LogWarning(absl::StrFormat(
          "%s longer than the %d pieces that the model was trained with, and may be translated "
          "badly%s",
          longer_.Describe("is", "are"), trained_.max_length,
          has_split ? "" : "; --split_sentences translates each sentence by itself"));
    }
    if (cut_.count > 0) {
      LogWarning(absl::StrFormat("%s cut to the model's %d pieces", cut_.Describe("was", "were"),
                                 trained_.model->options().max_positions - 1));
    }
    if (unknown_.count > 0) {
      LogWarning(absl::StrFormat("%s characters that the vocabulary lacks and no translation has",
                                 unknown_.Describe("has", "have")));
    }
  }

 private:
  const TranslationModel& trained_;
  NotedLines longer_;
  NotedLines cut_;
  NotedLines unknown_;
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
  DT_RETURN_IF_ERROR(CheckRange("n_best", flags.n_best, 1, search.beam_size));
  search.n_best = static_cast<int>(flags.n_best);
  const Timer timer;
  int64_t num_lines = 0;
  Notes noted(trained);
  std::vector<std::string> lines;
  for (;;) {
    DT_RETURN_IF_ERROR(reader.NextLines(flags.window, lines));
    if (lines.empty()) break;
    LineNotes notes;
    const Texts texts = TextsOf(lines, num_lines, flags.split_sentences);
    const auto translations =
        TranslateLines(*trained.model, *trained.tokenizer, texts.texts, search, ctx, &notes);
    noted.Add(notes, texts.numbers);
    std::string text;
    for (size_t i = 0; i < translations.size(); ++i) {
      const bool goes_on = i > 0 && texts.numbers[i] == texts.numbers[i - 1];
      // The line end of the sentence before becomes a space.
      if (goes_on) text.back() = ' ';
      text += Format(translations[i], texts.numbers[i] - 1, flags);
    }
    num_lines += static_cast<int64_t>(lines.size());
    DT_RETURN_IF_ERROR(output.Write(text));
  }
  DT_RETURN_IF_ERROR(output.Close());
  if (const std::string invalid_lines = reader.DescribeInvalid(); !invalid_lines.empty()) {
    LogWarning(invalid_lines);
  }
  noted.Warn(flags.split_sentences);
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
