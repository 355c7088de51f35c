// learn_vocabulary.cc - reads text, has a vocabulary learned from it, and writes its files.
// SPDX-License-Identifier: Apache-2.0
#include "tools/dtrain/learn_vocabulary.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/file.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/runs/output_folder.h"
#include "dtrain/tokenizers/bpe_trainer.h"
#include "dtrain/tokenizers/byte_bpe_trainer.h"
#include "dtrain/tokenizers/line_sample.h"
#include "dtrain/tokenizers/unigram_trainer.h"
#include "dtrain/tokenizers/wordpiece_trainer.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBatchBytes = size_t{8} << 20;
// As bert_pretrain reads: an article may be one line.
constexpr int64_t kMaxLineBytes = int64_t{64} << 20;

// Lines of all files, one after the other.
class TextFiles {
 public:
  TextFiles(std::vector<std::string> paths, InvalidText invalid)
      : paths_(std::move(paths)), invalid_(invalid) {}

  Status NextBatch(std::vector<std::string>& lines) {
    size_t bytes = 0;
    while (bytes < kBatchBytes) {
      if (!reader_) {
        if (next_ == paths_.size()) break;
        DT_ASSIGN_OR_RETURN(
            reader_, TextReader::OpenInput(paths_[next_++],
                                           {.max_line_bytes = kMaxLineBytes, .invalid = invalid_}));
      }
      TextLine line;
      DT_ASSIGN_OR_RETURN(const bool more, reader_->Next(line));
      if (!more) {
        const std::string invalid = reader_->DescribeInvalid();
        if (!invalid.empty()) LogWarning(invalid);
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
  InvalidText invalid_;
  size_t next_ = 0;
  std::optional<TextReader> reader_;
};

// A vocabulary before it is written.
struct Learned {
  int64_t pieces = 0;
  std::string details = {};   // follows the number of pieces
  std::string shortage = {};  // why there may be fewer than --vocab_size
  // Writes a file of the type, by its name.
  std::function<Status(const std::string& name, const std::string& path)> write = {};
};

// For files whose texts are there.
auto Writer(std::map<std::string, std::string> texts) {
  return [texts = std::move(texts)](const std::string& name, const std::string& path) {
    return WriteFileAtomically(path, texts.at(name));
  };
}

std::string OfWords(int64_t words, int64_t distinct_words) {
  return absl::StrFormat(" of %d words, %d of them distinct", words, distinct_words);
}

std::string TooLong(int64_t words) {
  return words == 0 ? ""
                    : absl::StrFormat("; %d words of more than 4096 bytes were left out", words);
}

StatusOr<Learned> LearnWordPieceFiles(const LineSource& source, const LearnFlags& flags) {
  WordPieceTrainerOptions options;
  options.words.behavior =
      flags.tokenizer == "google" ? WordPieceBehavior::kGoogle : WordPieceBehavior::kHuggingFace;
  options.words.lower_case = flags.lower_case;
  if (flags.accents != "with_capitals") options.words.strip_accents = flags.accents == "strip";
  options.vocab_size = static_cast<int32_t>(flags.vocab_size);
  options.min_frequency = flags.min_frequency;
  options.limit_alphabet = static_cast<int32_t>(flags.limit_alphabet);
  options.num_threads = static_cast<int>(flags.threads);
  DT_ASSIGN_OR_RETURN(const LearnedWordPieces learned, LearnWordPiece(source, options));
  Learned result{.pieces = static_cast<int64_t>(learned.pieces.size())};
  result.details = OfWords(learned.words, learned.distinct_words);
  if (learned.unknown_words > 0) {
    result.details += absl::StrFormat(
        "; %d words (%.3g %%) are [UNK]: too long, or with one of the %d characters beyond "
        "--limit_alphabet=%d",
        learned.unknown_words,
        100.0 * static_cast<double>(learned.unknown_words) / static_cast<double>(learned.words),
        learned.left_out_characters, flags.limit_alphabet);
  }
  result.write = Writer({{"vocab.txt", absl::StrJoin(learned.pieces, "\n") + "\n"}});
  return result;
}

SpecialTokens SpecialOf(const LearnFlags& flags) {
  SpecialTokens special;
  if (flags.special.empty()) return special;
  special.texts.clear();
  for (const std::string& list : flags.special) {
    const std::vector<std::string> texts = absl::StrSplit(list, ',');
    special.texts.insert(special.texts.end(), texts.begin(), texts.end());
  }
  return special;
}

StatusOr<Learned> LearnByteBpeFiles(const LineSource& source, const LearnFlags& flags) {
  DT_ASSIGN_OR_RETURN(const LearnedByteBpe learned,
                      LearnByteBpe(source, {.vocab_size = static_cast<int32_t>(flags.vocab_size),
                                            .min_frequency = flags.min_frequency,
                                            .special = SpecialOf(flags),
                                            .num_threads = static_cast<int>(flags.threads)}));
  return Learned{
      .pieces = learned.vocab_size(),
      .details = OfWords(learned.words, learned.distinct_words) + TooLong(learned.long_words),
      .write = Writer({{"tokenizer.json", ByteBpeJson(learned)},
                       {"tokenizer_config.json", TokenizerConfigJson(learned.special)}})};
}

StatusOr<Learned> LearnUnigramFiles(const LineSource& source, const LearnFlags& flags) {
  UnigramTrainerOptions options;
  options.vocab_size = static_cast<int32_t>(flags.vocab_size);
  options.character_coverage = flags.character_coverage.value_or(options.character_coverage);
  options.split_digits = flags.split_digits;
  options.special = SpecialOf(flags);
  options.num_threads = static_cast<int>(flags.threads);
  DT_ASSIGN_OR_RETURN(const LearnedUnigram learned, LearnUnigram(source, options));
  return Learned{
      .pieces = learned.vocab_size(),
      .details = OfWords(learned.words, learned.distinct_words) + TooLong(learned.long_words),
      .shortage = "the text has no further part that is worth a piece",
      .write = Writer({{"tokenizer.json", UnigramJson(learned)},
                       {"tokenizer_config.json", TokenizerConfigJson(learned.special)},
                       {"tokenizer.spm", UnigramModelProto(learned)}})};
}

StatusOr<Learned> LearnBpeFiles(const LineSource& source, const LearnFlags& flags) {
  BpeTrainerOptions options;
  options.vocab_size = static_cast<int32_t>(flags.vocab_size);
  options.num_threads = static_cast<int>(flags.threads);
  options.character_coverage = flags.character_coverage.value_or(options.character_coverage);
  options.min_frequency = flags.min_frequency;
  options.split_digits = flags.split_digits;
  options.byte_fallback = flags.byte_fallback;
  DT_ASSIGN_OR_RETURN(const BpeModel model, LearnBpe(source, options));
  return Learned{
      .pieces = model.vocab_size(),
      .details = {},
      .write = [model](const std::string&, const std::string& path) { return model.Save(path); }};
}

struct LearnedType {
  std::string name;
  std::vector<std::string> files;
  StatusOr<Learned> (*learn)(const LineSource& source, const LearnFlags& flags);
};

const std::vector<LearnedType>& Types() {
  static const std::vector<LearnedType> types = {
      {"byte_bpe", {"tokenizer.json", "tokenizer_config.json"}, LearnByteBpeFiles},
      {"unigram", {"tokenizer.json", "tokenizer_config.json", "tokenizer.spm"}, LearnUnigramFiles},
      {"wordpiece", {"vocab.txt"}, LearnWordPieceFiles},
      {"bpe", {"tokenizer.spm"}, LearnBpeFiles}};
  return types;
}

const LearnedType& TypeOf(const LearnFlags& flags) {
  const auto& types = Types();
  return *std::find_if(types.begin(), types.end(),
                       [&](const LearnedType& type) { return type.name == flags.type; });
}

// What would be a pity to find out after all the text is read.
Status CheckFiles(const LearnFlags& flags) {
  std::error_code error;
  if (fs::exists(flags.output, error) && !fs::is_directory(flags.output, error)) {
    return UsageError(flags.output + ": is a file; --output names the folder to write");
  }
  DT_RETURN_IF_ERROR(CheckIsNoCheckpoint(flags.output));
  for (const std::string& name : TypeOf(flags).files) {
    const std::string path = flags.output + "/" + name;
    if (!flags.overwrite && fs::exists(path, error)) {
      return UsageError(path + ": is there already; give another folder, or --overwrite");
    }
    DT_RETURN_IF_ERROR(CheckIsNotRead("the vocabulary", path, flags.inputs));
  }
  for (const std::string& path : flags.inputs) {
    // Of a pipe, what is read here would be missing later.
    if (path == "-" || (fs::exists(path, error) && !fs::is_regular_file(path, error))) continue;
    DT_RETURN_IF_ERROR(TextReader::Open(path).status());
  }
  return MakeDirectories(flags.output);
}

// A message about a field of the options, about the flag.
Status NamingLearnFlags(const Status& status) {
  if (status.code() != ExitCode::kUsage) return status;
  return UsageError(
      absl::StrReplaceAll(status.message(), {{"vocab_size", "--vocab_size"},
                                             {"limit_alphabet", "--limit_alphabet"},
                                             {"character_coverage", "--character_coverage"}}));
}

StatusOr<Learned> LearnFromText(const LearnFlags& flags) {
  DT_ASSIGN_OR_RETURN(const InvalidText invalid, ParseInvalidText("--invalid", flags.invalid));
  TextFiles files(flags.inputs, invalid);
  LineSource source = [&](std::vector<std::string>& lines) { return files.NextBatch(lines); };
  if (flags.sentences > 0) {
    DT_ASSIGN_OR_RETURN(source,
                        SampleLines(source, flags.sentences, static_cast<uint64_t>(flags.seed)));
  }
  StatusOr<Learned> learned = TypeOf(flags).learn(source, flags);
  if (!learned.ok()) return NamingLearnFlags(learned.status());
  return learned;
}

}  // namespace

const std::vector<std::string>& LearnedTypes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const LearnedType& type : Types()) all.push_back(type.name);
    return all;
  }();
  return names;
}

StatusOr<std::string> LearnVocabulary(const LearnFlags& flags) {
  DT_RETURN_IF_ERROR(CheckFiles(flags));
  const Timer timer;
  DT_ASSIGN_OR_RETURN(const Learned learned, LearnFromText(flags));
  std::vector<std::string> paths;
  for (const std::string& name : TypeOf(flags).files) {
    paths.push_back(flags.output + "/" + name);
    DT_RETURN_IF_ERROR(learned.write(name, paths.back()));
  }
  std::string text = absl::StrFormat("%s: %d pieces%s, in %.1f s", absl::StrJoin(paths, ", "),
                                     learned.pieces, learned.details, timer.Seconds());
  if (learned.pieces < flags.vocab_size) {
    const std::string pairs =
        absl::StrFormat("no further pair occurs %d times", flags.min_frequency);
    text += absl::StrFormat("; fewer than --vocab_size=%d, as %s", flags.vocab_size,
                            learned.shortage.empty() ? pairs : learned.shortage);
  }
  return text;
}

}  // namespace dtrain
