// bpe_trainer.cc - counts words and characters, learns merges, and builds the vocabulary.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/bpe_trainer.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/status.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/internal/parallel_parts.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "dtrain/tokenizers/internal/corpus_words.h"
#include "dtrain/tokenizers/internal/merge_learner.h"
#include "dtrain/tokenizers/internal/word_table.h"

namespace dtrain {

using internal::WordTable;

WordCounter::WordCounter(int num_threads)
    : tables_(static_cast<size_t>(num_threads > 0 ? num_threads : NumThreads())) {}
WordCounter::WordCounter(WordCounter&&) noexcept = default;
WordCounter& WordCounter::operator=(WordCounter&&) noexcept = default;
WordCounter::~WordCounter() = default;

void WordCounter::Add(std::span<const std::string> lines) { Add(lines, internal::DivideAtSpaces); }

void WordCounter::Add(std::span<const std::string> lines, const WordDivider& divide) {
  const size_t num_parts = tables_.size();
  internal::ForEachPart(num_parts, [&](size_t p) {
    const size_t begin = lines.size() * p / num_parts;
    const size_t end = lines.size() * (p + 1) / num_parts;
    divide(lines.subspan(begin, end - begin),
           [&](std::string_view word) { ++tables_[p].FindOrInsert(word); });
  });
}

Status WordCounter::AddAll(const LineSource& source, const WordDivider& divide) {
  std::vector<std::string> current;
  std::vector<std::string> next;
  DT_RETURN_IF_ERROR(source(current));
  while (!current.empty()) {
    std::future<Status> reading = std::async(std::launch::async, [&] {
      next.clear();
      return source(next);
    });
    Add(current, divide);
    DT_RETURN_IF_ERROR(reading.get());
    std::swap(current, next);
  }
  return OkStatus();
}

void WordCounter::AddWord(std::string_view word, int64_t count) {
  DT_CHECK(word.find(' ') == std::string_view::npos)
      << "a word must not contain spaces: '" << word << "'";
  DT_CHECK_GE(count, 0);
  std::string buffer;
  internal::ForEachWord(word, buffer, [&](std::string_view part) {
    tables_[0].FindOrInsert(part) += static_cast<uint64_t>(count);
  });
}

WordTable WordCounter::Take() {
  WordTable all = std::move(tables_[0]);
  for (size_t p = 1; p < tables_.size(); ++p) {
    for (size_t i = 0; i < tables_[p].size(); ++i) {
      all.FindOrInsert(tables_[p].word(i)) += tables_[p].value(i);
    }
  }
  for (WordTable& table : tables_) table.Clear();
  return all;
}

namespace {

Status CheckUserDefined(const std::string& text) {
  static constexpr std::string_view kTaken[] = {"<unk>", "<s>", "</s>", "<pad>"};
  const bool is_taken = std::find(std::begin(kTaken), std::end(kTaken), text) != std::end(kTaken) ||
                        (text.size() == 6 && text.starts_with("<0x"));
  if (is_taken) return UsageError(absl::StrFormat("'%s' has a meaning of its own", text));
  size_t first = 0;
  const bool is_long = !text.empty() && IsValidUtf8(text) &&
                       DecodeUtf8(text, first) != kInvalidCodePoint && text.size() > first;
  if (!is_long || text.find_first_of(" \t\n\v\f\r") != std::string::npos ||
      text.find(internal::kMetaspace, 1) != std::string::npos) {
    return UsageError(absl::StrFormat(
        "'%s' cannot be a piece: it must have two characters or more, and no white space", text));
  }
  return OkStatus();
}

Status CheckBpeOptions(const BpeTrainerOptions& options) {
  const auto check = [](bool ok, const char* name, const char* range, double value) {
    return ok ? OkStatus()
              : UsageError(absl::StrFormat("%s must be %s, not %g", name, range, value));
  };
  DT_RETURN_IF_ERROR(check(options.max_piece_length >= 1, "max_piece_length", "at least 1",
                           options.max_piece_length));
  DT_RETURN_IF_ERROR(check(options.character_coverage > 0.0 && options.character_coverage <= 1.0,
                           "character_coverage", "above 0 and at most 1",
                           options.character_coverage));
  for (const std::string& text : options.user_defined) {
    DT_RETURN_IF_ERROR(CheckUserDefined(text));
    if (std::count(options.user_defined.begin(), options.user_defined.end(), text) == 1) continue;
    return UsageError(absl::StrFormat("'%s' is given twice as a piece", text));
  }
  return check(options.min_frequency >= 1, "min_frequency", "at least 1",
               static_cast<double>(options.min_frequency));
}

std::vector<std::string> LearnMerges(const WordTable& words,
                                     const std::vector<uint32_t>& characters, size_t max_merges,
                                     const BpeTrainerOptions& options) {
  internal::MergeLearner learner(characters, options);
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words.word(i).size() > internal::kMaxWordBytes || words.value(i) == 0) continue;
    text.assign(internal::kMetaspace);
    text.append(words.word(i));
    learner.AddWord(text, static_cast<int64_t>(words.value(i)));
  }
  return learner.Learn(max_merges);
}

}  // namespace

StatusOr<BpeModel> LearnBpe(WordCounter& counter, const BpeTrainerOptions& options) {
  DT_RETURN_IF_ERROR(CheckBpeOptions(options));
  const WordTable words = counter.Take();
  const std::vector<uint32_t> characters =
      internal::CoveredCharacters(words, options.character_coverage);
  if (characters.empty()) {
    return DataError("no vocabulary can be learned: the corpus holds no words");
  }
  BpeVocabulary vocabulary;
  vocabulary.byte_fallback = options.byte_fallback;
  std::vector<BpePiece>& pieces = vocabulary.pieces;
  pieces = {{"<unk>", BpePieceType::kUnknown},
            {"<s>", BpePieceType::kControl},
            {"</s>", BpePieceType::kControl}};
  for (const std::string& text : options.user_defined) {
    pieces.push_back({text, BpePieceType::kUserDefined});
  }
  for (int byte = 0; options.byte_fallback && byte < 256; ++byte) {
    pieces.push_back({absl::StrFormat("<0x%02X>", byte), BpePieceType::kByte});
  }
  const size_t needed = pieces.size() + characters.size() + 1;
  if (options.vocab_size < 0 || static_cast<size_t>(options.vocab_size) < needed) {
    return UsageError(absl::StrFormat(
        "vocab_size %d is too small: the %d characters of the corpus and the control pieces need "
        "%d; raise it or lower character_coverage",
        options.vocab_size, characters.size(), needed));
  }
  std::vector<std::string> texts =
      LearnMerges(words, characters, static_cast<size_t>(options.vocab_size) - needed, options);
  // No text leads to a merged piece that is user-defined, too.
  std::erase_if(texts, [&](const std::string& text) {
    return std::find(options.user_defined.begin(), options.user_defined.end(), text) !=
           options.user_defined.end();
  });
  for (const uint32_t c : characters) AppendUtf8(c, texts.emplace_back());
  // Merges by rank, then characters: the order of spm_train.
  for (size_t i = 0; i < texts.size(); ++i) {
    pieces.push_back({std::move(texts[i]), BpePieceType::kNormal, -static_cast<float>(i)});
  }
  return BpeModel::FromVocabulary(std::move(vocabulary));
}

StatusOr<BpeModel> LearnBpe(const LineSource& source, const BpeTrainerOptions& options) {
  DT_RETURN_IF_ERROR(CheckBpeOptions(options));
  WordCounter counter(options.num_threads);
  DT_RETURN_IF_ERROR(counter.AddAll(source, internal::DivideAtSpaces));
  return LearnBpe(counter, options);
}

}  // namespace dtrain
