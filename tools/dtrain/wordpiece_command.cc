// wordpiece_command.cc - `dtrain wordpiece OUT/vocab.txt`: BERT's vocabulary from raw text.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/file.h"
#include "dtrain/base/timer.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/runs/output_folder.h"
#include "dtrain/tokenizers/wordpiece_trainer.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/run_command.h"
#include "tools/dtrain/translation_flags.h"

namespace dtrain {
namespace {

constexpr size_t kBatchBytes = size_t{8} << 20;
// As bert_pretrain reads: an article may be one line.
constexpr int64_t kMaxLineBytes = int64_t{64} << 20;

struct WordpieceFlags {
  std::vector<std::string> inputs;
  int64_t size = 30522;
  bool lower_case = true;
  std::string accents = "with_capitals";
  std::string tokenizer = "hf";
  int64_t min_frequency = 2;
  int64_t limit_alphabet = 1000;
  int64_t threads = 0;
  bool overwrite = false;
  std::string output;  // the argument

  void AddTo(FlagSet& set) {
    set.Add("input", "text: FILE,... or given several times; - is the standard input", &inputs);
    set.Add("size", "pieces of the vocabulary, the five special tokens included", &size);
    set.Add("lower_case", "make an uncased vocabulary; in training data.lower_case", &lower_case);
    set.Add("accents", "with_capitals (taken off where capitals are), keep or strip; data.accents",
            &accents);
    set.Add("tokenizer", "whose division into words: hf or google; data.tokenizer", &tokenizer);
    set.Add("min_frequency", "pairs that occur less often do not merge", &min_frequency);
    set.Add("limit_alphabet", "characters in the vocabulary, the most frequent ones",
            &limit_alphabet);
    set.Add("threads", "threads; 0 takes all cores", &threads);
    set.Add("overwrite", "replace a vocabulary that is there", &overwrite);
  }

  WordPieceTrainerOptions Options() const {
    WordPieceTrainerOptions options;
    options.words.behavior =
        tokenizer == "google" ? WordPieceBehavior::kGoogle : WordPieceBehavior::kHuggingFace;
    options.words.lower_case = lower_case;
    if (accents != "with_capitals") options.words.strip_accents = accents == "strip";
    options.vocab_size = static_cast<int32_t>(size);
    options.min_frequency = min_frequency;
    options.limit_alphabet = static_cast<int32_t>(limit_alphabet);
    options.num_threads = static_cast<int>(threads);
    return options;
  }
};

Status CheckChoice(std::string_view flag, const std::string& value,
                   const std::vector<std::string>& choices) {
  for (const std::string& choice : choices) {
    if (value == choice) return OkStatus();
  }
  return UsageError(absl::StrFormat("--%s is %s; it is one of %s", std::string(flag), value,
                                    absl::StrJoin(choices, ", ")));
}

Status ParseWordpieceFlags(int argc, char** argv, FlagSet& set, WordpieceFlags& flags) {
  DT_ASSIGN_OR_RETURN(std::vector<std::string> positional, set.Parse(argc, argv));
  if (set.help_wanted()) return OkStatus();
  if (positional.size() != 1) {
    return UsageError("give the file to write: dtrain wordpiece OUT/vocab.txt --input=text.txt");
  }
  flags.output = std::move(positional.front());
  std::vector<std::string> paths;
  for (const std::string& list : flags.inputs) {
    for (std::string& path :
         std::vector<std::string>(absl::StrSplit(list, ',', absl::SkipEmpty()))) {
      paths.push_back(std::move(path));
    }
  }
  flags.inputs = std::move(paths);
  if (flags.inputs.empty()) return UsageError("no text: give --input=FILE,...");
  DT_RETURN_IF_ERROR(CheckChoice("accents", flags.accents, {"with_capitals", "keep", "strip"}));
  DT_RETURN_IF_ERROR(CheckChoice("tokenizer", flags.tokenizer, {"hf", "google"}));
  DT_RETURN_IF_ERROR(CheckRange("size", flags.size, 6, 100'000'000));
  DT_RETURN_IF_ERROR(CheckRange("min_frequency", flags.min_frequency, 1, INT64_MAX));
  DT_RETURN_IF_ERROR(CheckRange("limit_alphabet", flags.limit_alphabet, 1, 0x110000));
  return CheckRange("threads", flags.threads, 0, 4096);
}

// Lines of all files, one after the other.
class TextFiles {
 public:
  explicit TextFiles(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  Status NextBatch(std::vector<std::string>& lines) {
    size_t bytes = 0;
    while (bytes < kBatchBytes) {
      if (!reader_) {
        if (next_ == paths_.size()) break;
        DT_ASSIGN_OR_RETURN(
            reader_, TextReader::OpenInput(paths_[next_++], {.max_line_bytes = kMaxLineBytes}));
      }
      TextLine line;
      DT_ASSIGN_OR_RETURN(const bool more, reader_->Next(line));
      if (!more) {
        reader_.reset();
        continue;
      }
      // Empty lines fill batches too.
      bytes += line.text.size() + sizeof(std::string);
      lines.emplace_back(line.text);
    }
    return OkStatus();
  }

 private:
  std::vector<std::string> paths_;
  size_t next_ = 0;
  std::optional<TextReader> reader_;
};

// What would be a pity to find out after all the text is read.
Status CheckFiles(const WordpieceFlags& flags) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(flags.output, error)) {
    return UsageError(flags.output + ": is a folder; name the file in it, for example " +
                      (fs::path(flags.output) / "vocab.txt").string());
  }
  if (!flags.overwrite && fs::is_regular_file(flags.output, error)) {
    return UsageError(flags.output + ": is there already; give another name, or --overwrite");
  }
  DT_RETURN_IF_ERROR(CheckIsNotRead("the vocabulary", flags.output, flags.inputs));
  for (const std::string& path : flags.inputs) {
    // Of a pipe, what is read here would be missing later.
    if (path == "-" || (fs::exists(path, error) && !fs::is_regular_file(path, error))) continue;
    DT_RETURN_IF_ERROR(TextReader::Open(path).status());
  }
  return MakeDirectories(ParentOf(flags.output));
}

// A message about a field of the options, about the flag.
Status NamingWordpieceFlags(const Status& status) {
  if (status.code() != ExitCode::kUsage) return status;
  return UsageError(absl::StrReplaceAll(
      status.message(), {{"vocab_size", "--size"}, {"limit_alphabet", "--limit_alphabet"}}));
}

std::string Describe(const WordpieceFlags& flags, const LearnedWordPieces& learned,
                     double seconds) {
  std::string text =
      absl::StrFormat("%s: %d pieces of %d words, %d of them distinct, in %.1f s", flags.output,
                      learned.pieces.size(), learned.words, learned.distinct_words, seconds);
  if (static_cast<int64_t>(learned.pieces.size()) < flags.size) {
    text += absl::StrFormat("; fewer than --size=%d, as no further pair occurs %d times",
                            flags.size, flags.min_frequency);
  }
  if (learned.unknown_words > 0) {
    text += absl::StrFormat(
        "; %d words (%.3g %%) are [UNK]: too long, or with one of the %d characters beyond "
        "--limit_alphabet=%d",
        learned.unknown_words,
        100.0 * static_cast<double>(learned.unknown_words) / static_cast<double>(learned.words),
        learned.left_out_characters, flags.limit_alphabet);
  }
  return text;
}

Status LearnVocabulary(const WordpieceFlags& flags, Runtime& runtime) {
  if (runtime.comm.size() > 1) {
    return UsageError("dtrain wordpiece is one process: start it without mpirun (see --threads)");
  }
  DT_RETURN_IF_ERROR(CheckFiles(flags));
  const Timer timer;
  TextFiles files(flags.inputs);
  const StatusOr<LearnedWordPieces> learned = LearnWordPiece(
      [&](std::vector<std::string>& lines) { return files.NextBatch(lines); }, flags.Options());
  if (!learned.ok()) return NamingWordpieceFlags(learned.status());
  DT_RETURN_IF_ERROR(
      WriteFileAtomically(flags.output, absl::StrJoin(learned->pieces, "\n") + "\n"));
  std::printf("%s\n", Describe(flags, *learned, timer.Seconds()).c_str());
  return OkStatus();
}

}  // namespace

int WordpieceCommand(int argc, char** argv) {
  WordpieceFlags flags;
  FlagSet set("dtrain wordpiece OUT/vocab.txt --input=FILE,... [FLAGS]",
              "learns a WordPiece vocabulary from text (UTF-8, plain, .gz or .zst) to pre-train "
              "BERT with: bert_pretrain data.vocabulary=OUT/vocab.txt");
  flags.AddTo(set);
  const Status parsed = ParseWordpieceFlags(argc, argv, set, flags);
  return RunCommand(argc, argv, set, parsed, {},
                    [&](Runtime& runtime) { return LearnVocabulary(flags, runtime); });
}

}  // namespace dtrain
