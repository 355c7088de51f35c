// prepare.cc - two passes over the training text: count words, then encode and write.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/prepare.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/log.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/timer.h"
#include "dtrain/data/internal/file_content.h"
#include "dtrain/data/internal/parallel_parts.h"
#include "dtrain/tasks/translation/internal/corpus_pass.h"
#include "dtrain/tasks/translation/internal/hold_out.h"
#include "dtrain/tasks/translation/internal/prepare_report.h"
#include "dtrain/tasks/translation/internal/prepared_folder.h"
#include "dtrain/tasks/translation/internal/train_sources.h"
#include "dtrain/tasks/translation/token_shard.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"

namespace dtrain {
namespace {

using internal::HoldOut;
using internal::PairBlock;
using internal::PreparedFolder;
using internal::SourcePart;

constexpr int64_t kHistogramBins = 128;

Status CheckOptions(const PrepareOptions& o) {
  if (o.train.empty()) return UsageError("no training text is given; name two files or one TSV");
  for (const ParallelInput& input : o.train) {
    if (input.empty()) return UsageError("an input of the training text has no source file");
  }
  DT_RETURN_IF_ERROR(internal::CheckSources(o));
  if (o.model_path.empty()) DT_RETURN_IF_ERROR(internal::TagPiecesOf(o).status());
  if (o.output_dir.empty()) return UsageError("no output folder");
  if (o.hold_out_dev < 0 || o.hold_out_test < 0) {
    return UsageError("the number of pairs to hold out must not be negative");
  }
  if (o.max_line_bytes < 1) return UsageError("max_line_bytes must be at least 1");
  if (o.num_threads < 0) return UsageError("num_threads must be at least 0 (0: all)");
  return OkStatus();
}

// All files that are read.
std::vector<std::string> InputPaths(const PrepareOptions& o) {
  std::vector<ParallelInput> inputs = o.train;
  inputs.push_back(o.dev);
  inputs.push_back(o.test);
  std::vector<std::string> paths;
  if (!o.model_path.empty()) paths = TranslationTokenizer::FilesOf(o.model_path);
  for (const ParallelInput& input : inputs) {
    paths.push_back(input.source);
    paths.push_back(input.target);
  }
  std::erase(paths, "");
  return paths;
}

class Preparation {
 public:
  Preparation(const PrepareOptions& options, PreparedFolder& folder)
      : options_(options),
        folder_(folder),
        parts_(internal::PartsOf(options)),
        read_options_{options.max_line_bytes, true} {}

  Status Run(PrepareReport& report) {
    report_ = &report;
    DT_RETURN_IF_ERROR(CopyEvaluation("dev", options_.dev));
    DT_RETURN_IF_ERROR(CopyEvaluation("test", options_.test));
    const int64_t hold_out = (options_.dev.empty() ? options_.hold_out_dev : 0) +
                             (options_.test.empty() ? options_.hold_out_test : 0);
    if (hold_out > 0 || options_.model_path.empty()) DT_RETURN_IF_ERROR(FirstPass(hold_out));
    if (!options_.model_path.empty()) DT_RETURN_IF_ERROR(UseModel());
    DT_RETURN_IF_ERROR(internal::CheckTags(parts_, *tokenizer_));
    report.vocab_size = tokenizer_->vocab_size();
    report.vocab_hash = tokenizer_->Hash();
    DT_RETURN_IF_ERROR(EncodeEvaluation("dev", report.dev));
    DT_RETURN_IF_ERROR(EncodeEvaluation("test", report.test));
    return EncodeTrain();
  }

 private:
  // Copies the lines unchanged to name.src and name.ref, and remembers them.
  Status CopyEvaluation(const std::string& name, const ParallelInput& input) {
    if (input.empty()) return OkStatus();
    TextReaderOptions strict = read_options_;
    strict.report_problems = false;
    DT_ASSIGN_OR_RETURN(ParallelTextReader reader, internal::OpenParallel(input, strict));
    DT_ASSIGN_OR_RETURN(AtomicFile source, AtomicFile::Create(folder_.Path(name + ".src")));
    DT_ASSIGN_OR_RETURN(AtomicFile target, AtomicFile::Create(folder_.Path(name + ".ref")));
    TextPair pair;
    int64_t pairs = 0;
    for (;; ++pairs) {
      DT_ASSIGN_OR_RETURN(const bool more, reader.Next(pair));
      if (!more) break;
      if (options_.cleaning.drop_evaluation_overlap) {
        AddEvaluationPair(pair.source, pair.target);
      }
      DT_RETURN_IF_ERROR(WriteLine(pair.source, source));
      DT_RETURN_IF_ERROR(WriteLine(pair.target, target));
    }
    NoteColumns(input, reader.lines_with_more_columns() + reader.incomplete_entries());
    if (pairs == 0) return DataError(input.source + ": is empty; give at least one sentence pair");
    DT_RETURN_IF_ERROR(source.Commit());
    return target.Commit();
  }

  // Remembers a pair that the training data must not contain.
  void AddEvaluationPair(std::string_view source, std::string_view target) {
    evaluation_.push_back(HashPair(internal::WithoutTag(source, options_.sources), target));
  }

  static Status WriteLine(std::string_view line, AtomicFile& file) {
    DT_RETURN_IF_ERROR(file.Write(line));
    return file.Write("\n");
  }

  // Returns a cleaner that has seen no training pairs yet.
  PairCleaner MakeCleaner() const {
    CleaningOptions cleaning = options_.cleaning;
    cleaning.drop_evaluation_overlap = true;  // harmless if not wanted: evaluation_ is empty then
    PairCleaner cleaner(cleaning);
    for (const PairHashes& hashes : evaluation_) cleaner.AddEvaluationPair(hashes);
    return cleaner;
  }

  // Counts words to learn a vocabulary, and holds out pairs for missing dev and test sets.
  Status FirstPass(int64_t hold_out) {
    CleaningReport cleaning;
    WordCounter counter;
    HoldOut held(hold_out);
    const bool learn = options_.model_path.empty();
    for (const SourcePart& part : parts_) {
      const auto consume = [&](PairBlock& block, const std::string&) {
        if (learn) counter.Add(block.used_lines());
        held.Add(block, part.source.tag);
        for (const int64_t number : block.numbers) cleaning.Add(DropReason::kKept, {}, number);
        return OkStatus();
      };
      PairCleaner cleaner = MakeCleaner();
      for (const ParallelInput& input : part.inputs) {
        DT_RETURN_IF_ERROR(
            internal::ForEachCleanBlock(input, read_options_, cleaner, cleaning, consume).status());
      }
    }
    DT_RETURN_IF_ERROR(CheckCounts(cleaning));
    DT_RETURN_IF_ERROR(WriteHeldOut(cleaning.pairs_kept(), held));
    if (!learn) return OkStatus();
    LogInfo(absl::StrFormat("learning a vocabulary from %d pairs", cleaning.pairs_kept()));
    BpeTrainerOptions bpe = options_.bpe;
    DT_ASSIGN_OR_RETURN(bpe.user_defined, internal::TagPiecesOf(options_));
    DT_ASSIGN_OR_RETURN(const BpeModel model, LearnBpe(counter, bpe));
    report_->vocab_learned = true;
    if (model.vocab_size() < options_.bpe.vocab_size) {
      report_->notes.push_back(
          absl::StrFormat("the vocabulary has only %d of the %d requested pieces: the text has no "
                          "more pairs to merge",
                          model.vocab_size(), options_.bpe.vocab_size));
    }
    const std::string path = folder_.Path(kVocabularyFile);
    DT_RETURN_IF_ERROR(model.Save(path));
    DT_ASSIGN_OR_RETURN(tokenizer_, TranslationTokenizer::Load(path));
    return OkStatus();
  }

  Status WriteHeldOut(int64_t pairs, HoldOut& held) {
    const std::pair<const char*, int64_t> sets[] = {
        {"dev", options_.dev.empty() ? options_.hold_out_dev : 0},
        {"test", options_.test.empty() ? options_.hold_out_test : 0}};
    for (const auto& [name, wanted] : sets) {
      const auto taken = held.Take(std::min(wanted, pairs / 20));
      if (taken.empty()) continue;
      DT_ASSIGN_OR_RETURN(AtomicFile source,
                          AtomicFile::Create(folder_.Path(std::string(name) + ".src")));
      DT_ASSIGN_OR_RETURN(AtomicFile target,
                          AtomicFile::Create(folder_.Path(std::string(name) + ".ref")));
      for (const auto& [source_line, target_line] : taken) {
        AddEvaluationPair(source_line, target_line);
        DT_RETURN_IF_ERROR(WriteLine(source_line, source));
        DT_RETURN_IF_ERROR(WriteLine(target_line, target));
      }
      DT_RETURN_IF_ERROR(source.Commit());
      DT_RETURN_IF_ERROR(target.Commit());
      const bool is_capped = static_cast<int64_t>(taken.size()) < wanted;
      report_->notes.push_back(absl::StrFormat(
          "%d pairs of the training text are held out as %s%s", taken.size(), name,
          is_capped ? absl::StrFormat(" (%d requested; at most one pair in 20)", wanted) : ""));
    }
    return OkStatus();
  }

  Status UseModel() {
    DT_ASSIGN_OR_RETURN(tokenizer_, TranslationTokenizer::Load(options_.model_path));
    for (const NamedFile& file : tokenizer_->files()) {
      DT_RETURN_IF_ERROR(WriteFileAtomically(folder_.Path(file.name), file.contents));
    }
    return OkStatus();
  }

  // Checks that there are not too many invalid lines, and that pairs are left.
  Status CheckCounts(const CleaningReport& cleaning) const {
    const CleaningReport::Entry& invalid = cleaning.entry(DropReason::kInvalidText);
    const int64_t read = cleaning.pairs_read();
    if (static_cast<double>(invalid.pairs) >
        options_.max_invalid_fraction * static_cast<double>(read)) {
      return DescribeInvalid(invalid, read);
    }
    if (read == 0) {
      return DataError(options_.train[0].source +
                       ": the training text is empty; give at least one sentence pair");
    }
    if (cleaning.pairs_kept() == 0) {
      return DataError(absl::StrFormat("%s: no pair of %d is left after cleaning:\n%s",
                                       options_.train[0].source, read, cleaning.Describe()));
    }
    return OkStatus();
  }

  // Reads again up to the first invalid line, to return the reader's own message.
  Status DescribeInvalid(const CleaningReport::Entry& invalid, int64_t read) const {
    TextReaderOptions strict = read_options_;
    strict.report_problems = false;
    for (const ParallelInput& input : options_.train) {
      DT_ASSIGN_OR_RETURN(ParallelTextReader reader, internal::OpenParallel(input, strict));
      for (TextPair pair;;) {
        const StatusOr<bool> more = reader.Next(pair);
        if (!more.ok()) {
          return DataError(absl::StrFormat(
              "%s (%d of %d lines are broken; the allowed share is %g)", more.status().message(),
              invalid.pairs, read, options_.max_invalid_fraction));
        }
        if (!*more) break;
      }
    }
    return DataError(options_.train[0].source + ": changed while it was read");
  }

  Status EncodeEvaluation(const std::string& name, SetStats& stats) {
    const std::string source = folder_.Path(name + ".src");
    if (!std::filesystem::exists(source)) return OkStatus();
    DT_ASSIGN_OR_RETURN(
        ParallelTextReader reader,
        ParallelTextReader::Open(source, folder_.Path(name + ".ref"), read_options_));
    DT_ASSIGN_OR_RETURN(TokenShardWriter writer, CreateShard(name));
    TranslationEncoder encoder(*tokenizer_);
    std::vector<std::string> lines;
    for (bool more = true; more;) {
      lines.clear();
      TextPair pair;
      while (lines.size() < 8192) {
        DT_ASSIGN_OR_RETURN(more, reader.Next(pair));
        if (!more) break;
        lines.emplace_back(pair.source);
        lines.emplace_back(pair.target);
      }
      const EncodedLines encoded = encoder.Encode(lines, MarianLines::kPairs);
      for (size_t i = 0; i < lines.size(); i += 2) {
        const auto source_ids = Cut(encoded.line(i));
        const auto target_ids = Cut(encoded.line(i + 1));
        const size_t whole = encoded.line(i).size() + encoded.line(i + 1).size();
        if (source_ids.size() + target_ids.size() < whole) ++stats.cut_pairs;
        Count(lines[i], source_ids, stats.source);
        Count(lines[i + 1], target_ids, stats.target);
        ++stats.pairs;
        DT_RETURN_IF_ERROR(writer.Add(source_ids, target_ids));
      }
    }
    if (stats.cut_pairs > 0) {
      report_->notes.push_back(absl::StrFormat(
          "%s: pairs that are cut to %d pieces a side in the shard, not in the text: %d", name,
          options_.cleaning.max_pieces, stats.cut_pairs));
    }
    NoteUnknown(name, stats);
    return writer.Finish();
  }

  Status EncodeTrain() {
    CleaningReport& cleaning = report_->cleaning;
    SetStats& stats = report_->train;
    DT_ASSIGN_OR_RETURN(TokenShardWriter writer, CreateShard("train"));
    TranslationEncoder encoder(*tokenizer_);
    std::string tag;
    const auto consume = [&](PairBlock& block, const std::string& path) -> Status {
      for (size_t i = 0; i < block.numbers.size() && !tag.empty(); ++i) {
        block.lines[2 * i] = internal::WithTag(tag, block.lines[2 * i]);
      }
      const EncodedLines encoded = encoder.Encode(block.used_lines(), MarianLines::kPairs);
      for (size_t i = 0; i < block.numbers.size(); ++i) {
        const auto source = encoded.line(2 * i);
        const auto target = encoded.line(2 * i + 1);
        DropReason reason = DropReason::kKept;
        if (source.empty() || target.empty()) reason = DropReason::kEmptySide;
        if (Cut(source).size() < source.size() || Cut(target).size() < target.size()) {
          reason = DropReason::kTooManyPieces;
        }
        cleaning.Add(reason, path, block.numbers[i]);
        if (reason != DropReason::kKept) continue;
        Count(block.lines[2 * i], source, stats.source);
        Count(block.lines[2 * i + 1], target, stats.target);
        ++stats.pairs;
        DT_RETURN_IF_ERROR(writer.Add(source, target));
      }
      return OkStatus();
    };
    for (const SourcePart& part : parts_) {
      tag = part.source.tag;
      writer.BeginSource(part.source.weight);
      PairCleaner cleaner = MakeCleaner();
      const int64_t before = stats.pairs;
      for (const ParallelInput& input : part.inputs) {
        DT_ASSIGN_OR_RETURN(
            const int64_t lines,
            internal::ForEachCleanBlock(input, read_options_, cleaner, cleaning, consume));
        NoteColumns(input, lines);
      }
      report_->sources.push_back(
          {.pairs = stats.pairs - before, .weight = part.source.weight, .tag = tag});
    }
    DT_RETURN_IF_ERROR(CheckCounts(cleaning));
    DT_RETURN_IF_ERROR(internal::CountShares(parts_, report_->sources));
    if (options_.sources.empty()) report_->sources.clear();
    NoteUnknown("train", stats);
    return writer.Finish();
  }

  StatusOr<TokenShardWriter> CreateShard(const std::string& name) const {
    return TokenShardWriter::Create(
        folder_.Path(name + ".bin"),
        {.vocab_size = std::max(tokenizer_->vocab_size(MarianSide::kSource),
                                tokenizer_->vocab_size(MarianSide::kTarget)),
         .vocab_hash = report_->vocab_hash,
         .options_hash = report_->options_hash});
  }

  std::span<const int32_t> Cut(std::span<const int32_t> ids) const {
    const auto limit = static_cast<size_t>(options_.cleaning.max_pieces);
    return limit > 0 && ids.size() > limit ? ids.first(limit) : ids;
  }

  void Count(std::string_view line, std::span<const int32_t> ids, SideStats& side) const {
    const auto pieces = static_cast<int64_t>(ids.size());
    side.words += internal::CountWords(line);
    side.pieces += pieces;
    side.longest = std::max(side.longest, pieces);
    side.unknown_pieces += std::count(ids.begin(), ids.end(), tokenizer_->unk_id());
    const auto bin = static_cast<size_t>(std::min(pieces / 8, kHistogramBins - 1));
    if (side.histogram.size() <= bin) side.histogram.resize(bin + 1);
    ++side.histogram[bin];
  }

  void NoteColumns(const ParallelInput& input, int64_t lines) {
    if (lines == 0) return;
    if (input.format != PairFormat::kTsv) {
      report_->notes.push_back(absl::StrFormat("%s: %d entries lack %s or %s and are left out",
                                               input.source, lines, input.source_language,
                                               input.target_language));
      return;
    }
    report_->notes.push_back(absl::StrFormat(
        "%s: %d lines have more than two columns; the first two are used as source and target",
        input.source, lines));
  }

  void NoteUnknown(const std::string& name, const SetStats& set) {
    const std::pair<const char*, const SideStats*> sides[] = {{"source", &set.source},
                                                              {"target", &set.target}};
    for (const auto& [side_name, side] : sides) {
      if (side->unknown_pieces * 100 <= side->pieces) continue;
      report_->notes.push_back(absl::StrFormat(
          "%.1f %% of the pieces of %s %s are unknown: is the vocabulary of these languages?",
          100.0 * static_cast<double>(side->unknown_pieces) / static_cast<double>(side->pieces),
          name, side_name));
    }
  }

  const PrepareOptions& options_;
  PreparedFolder& folder_;
  std::vector<SourcePart> parts_;
  TextReaderOptions read_options_;
  PrepareReport* report_ = nullptr;
  std::vector<PairHashes> evaluation_;  // lines that the training data must not contain
  std::optional<TranslationTokenizer> tokenizer_;
};

std::string DescribeSet(std::string_view name, const SetStats& set) {
  if (set.pairs == 0) return {};
  const auto per_word = [](const SideStats& side) {
    return side.words == 0 ? 0.0
                           : static_cast<double>(side.pieces) / static_cast<double>(side.words);
  };
  return absl::StrFormat(
      "%-5s %9d pairs, %d + %d pieces (%.2f and %.2f a word), longest %d and %d\n", ToAbsl(name),
      set.pairs, set.source.pieces, set.target.pieces, per_word(set.source), per_word(set.target),
      set.source.longest, set.target.longest);
}

}  // namespace

std::string PrepareReport::Describe() const {
  std::string text = absl::StrFormat(
      "%s: %d of %d pairs kept, vocabulary of %d %s, %s\n", output_dir, cleaning.pairs_kept(),
      cleaning.pairs_read(), vocab_size, vocab_learned ? "learned" : "given",
      reused ? std::string("prepared before and reused") : absl::StrFormat("%.1f s", seconds));
  text += cleaning.Describe();
  text += internal::DescribeSources(sources);
  text += DescribeSet("train", train) + DescribeSet("dev", dev) + DescribeSet("test", test);
  for (const std::string& note : notes) text += "note: " + note + "\n";
  return text;
}

StatusOr<PrepareReport> PrepareParallelCorpus(const PrepareOptions& options) {
  const Timer timer;
  DT_RETURN_IF_ERROR(CheckOptions(options));
  const internal::ScopedNumThreads threads(options.num_threads > 0 ? options.num_threads
                                                                   : NumThreads());
  internal::InputFiles files;
  DT_ASSIGN_OR_RETURN(const internal::PrepareIdentity identity,
                      internal::ComputePrepareIdentity(options, files));
  PreparedFolder folder(options.output_dir);
  DT_RETURN_IF_ERROR(folder.Lock());
  DT_ASSIGN_OR_RETURN(std::optional<PrepareReport> earlier,
                      folder.FindEarlier(identity, options.overwrite));
  if (earlier) {
    earlier->output_dir = options.output_dir;
    earlier->reused = true;
    return *std::move(earlier);
  }
  DT_RETURN_IF_ERROR(folder.CheckInputs(InputPaths(options)));
  PrepareReport report;
  report.output_dir = options.output_dir;
  report.options_hash = internal::HashPrepareIdentity(identity);
  DT_RETURN_IF_ERROR(folder.Begin());
  const Status prepared = Preparation(options, folder).Run(report);
  // If an input was incomplete while it was read, report that instead of errors in its lines.
  DT_RETURN_IF_ERROR(files.CheckUnchanged());
  DT_RETURN_IF_ERROR(prepared);
  report.seconds = timer.Seconds();
  DT_ASSIGN_OR_RETURN(AtomicFile json, AtomicFile::Create(folder.Path(kPrepareReportFile)));
  DT_RETURN_IF_ERROR(json.Write(internal::PrepareReportToJson(report, identity)));
  DT_RETURN_IF_ERROR(json.Commit());
  DT_RETURN_IF_ERROR(folder.Publish());
  return report;
}

std::string DescribeIgnoredOptions(const PrepareOptions& options) {
  const std::string path = options.output_dir + "/" + std::string(kPrepareReportFile);
  const StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return "";
  const auto saved = internal::PrepareReportFromJson(*text, path);
  if (!saved.ok()) return "";
  const internal::PrepareIdentity plain = internal::DescribeOptions({});
  internal::PrepareIdentity asked, there;
  for (const auto& [name, value] : internal::DescribeOptions(options)) {
    const auto found = saved->identity.find(name);
    if (value == plain.at(name) || found == saved->identity.end()) continue;
    asked[name] = value;
    there[name] = found->second;
  }
  return internal::DescribeDifferences(there, asked);
}

}  // namespace dtrain
