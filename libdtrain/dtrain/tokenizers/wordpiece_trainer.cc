// wordpiece_trainer.cc - counts words and characters, learns merges, and orders the pieces.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/wordpiece_trainer.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/status.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "dtrain/tokenizers/internal/merge_learner.h"
#include "dtrain/tokenizers/internal/word_table.h"
#include "dtrain/tokenizers/internal/wordpiece_tables.h"

namespace dtrain {
namespace {

using internal::WordTable;

constexpr std::string_view kContinuingPrefix = "##";

// In the order of BERT's vocabularies.
std::vector<std::string> SpecialPieces() { return {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}; }

Status CheckWordPieceOptions(const WordPieceTrainerOptions& options) {
  if (options.min_frequency < 1) {
    return UsageError(
        absl::StrFormat("min_frequency must be at least 1, not %d", options.min_frequency));
  }
  if (options.limit_alphabet < 1) {
    return UsageError(
        absl::StrFormat("limit_alphabet must be at least 1, not %d", options.limit_alphabet));
  }
  return OkStatus();
}

// Calls body(code point) for each character of `text`, which must be valid UTF-8.
template <typename Body>
void ForEachCharacter(std::string_view text, const Body& body) {
  for (size_t i = 0, size = 0; i < text.size(); i += size) {
    body(DecodeUtf8(text.substr(i), size));
  }
}

StatusOr<WordTable> CountWords(const LineSource& source, const WordPieceOptions& resolved,
                               int num_threads) {
  const internal::CharacterTable characters(internal::RulesOf(resolved));
  const WordDivider divide = [&](std::span<const std::string> lines,
                                 const std::function<void(std::string_view)>& add) {
    internal::WordList list;
    for (const std::string& line : lines) {
      internal::SplitWords(characters, line, list);
      for (const internal::WordList::Word& word : list.words) add(list.word(word));
    }
  };
  WordCounter counter(num_threads);
  DT_RETURN_IF_ERROR(counter.AddAll(source, divide));
  return counter.Take();
}

// The words that the vocabulary is learned from: not too long, and with frequent characters only.
class Corpus {
 public:
  Corpus(const WordTable& words, int max_word_chars, int32_t limit_alphabet)
      : words_(words), max_word_chars_(max_word_chars) {
    for (size_t i = 0; i < words.size(); ++i) {
      if (!IsTooLong(words.word(i))) kept_.push_back(i);
    }
    LimitAlphabet(static_cast<size_t>(limit_alphabet));
    const std::unordered_set<uint32_t> alphabet(alphabet_.begin(), alphabet_.end());
    if (left_out_characters_ == 0) return;
    std::erase_if(kept_, [&](size_t i) {
      bool is_known = true;
      ForEachCharacter(words_.word(i),
                       [&](uint32_t c) { is_known = is_known && alphabet.contains(c); });
      return !is_known;
    });
  }

  // The characters, and the ones that continue words as "##x", both by code point.
  std::vector<std::string> SingleCharacters() const {
    std::unordered_set<uint32_t> continuing;
    for (const size_t i : kept_) {
      bool is_first = true;
      ForEachCharacter(words_.word(i), [&](uint32_t c) {
        if (!is_first) continuing.insert(c);
        is_first = false;
      });
    }
    std::vector<std::string> texts;
    for (const uint32_t c : alphabet_) AppendUtf8(c, texts.emplace_back());
    for (const uint32_t c : alphabet_) {
      if (!continuing.contains(c)) continue;
      AppendUtf8(c, texts.emplace_back(kContinuingPrefix));
    }
    return texts;
  }

  std::vector<std::string> LearnMerges(size_t max_merges, int64_t min_frequency) const {
    internal::MergeLearner learner(alphabet_,
                                   {.max_piece_length = max_word_chars_,
                                    .min_frequency = min_frequency,
                                    .split_by_script = false},
                                   kContinuingPrefix);
    for (const size_t i : kept_) {
      learner.AddWord(words_.word(i), static_cast<int64_t>(words_.value(i)));
    }
    return learner.Learn(max_merges);
  }

  int64_t left_out_characters() const { return left_out_characters_; }
  // Number of occurrences of these words.
  int64_t known_words() const {
    int64_t sum = 0;
    for (const size_t i : kept_) sum += static_cast<int64_t>(words_.value(i));
    return sum;
  }

 private:
  void LimitAlphabet(size_t limit) {
    std::unordered_map<uint32_t, uint64_t> counts;
    for (const size_t i : kept_) {
      ForEachCharacter(words_.word(i), [&](uint32_t c) { counts[c] += words_.value(i); });
    }
    std::vector<std::pair<uint32_t, uint64_t>> sorted(counts.begin(), counts.end());
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    const size_t kept = std::min(sorted.size(), limit);
    left_out_characters_ = static_cast<int64_t>(sorted.size() - kept);
    for (size_t i = 0; i < kept; ++i) alphabet_.push_back(sorted[i].first);
    std::sort(alphabet_.begin(), alphabet_.end());
  }

  bool IsTooLong(std::string_view word) const {
    const auto limit = static_cast<size_t>(max_word_chars_);
    if (word.size() <= limit) return false;
    size_t characters = 0;
    ForEachCharacter(word, [&](uint32_t) { ++characters; });
    return characters > limit;
  }

  const WordTable& words_;
  const int32_t max_word_chars_;
  std::vector<size_t> kept_;        // indices of words_
  std::vector<uint32_t> alphabet_;  // by code point
  int64_t left_out_characters_ = 0;
};

}  // namespace

StatusOr<LearnedWordPieces> LearnWordPiece(const LineSource& source,
                                           const WordPieceTrainerOptions& options) {
  DT_RETURN_IF_ERROR(CheckWordPieceOptions(options));
  LearnedWordPieces learned{.pieces = SpecialPieces()};
  std::vector<std::string>& pieces = learned.pieces;
  // Checks the options for words and fills in defaults.
  DT_ASSIGN_OR_RETURN(const WordPieceTokenizer tokenizer,
                      WordPieceTokenizer::FromVocabulary(pieces, options.words));
  const WordPieceOptions& resolved = tokenizer.options();
  DT_ASSIGN_OR_RETURN(const WordTable words, CountWords(source, resolved, options.num_threads));
  const Corpus corpus(words, resolved.max_word_chars, options.limit_alphabet);
  learned.distinct_words = static_cast<int64_t>(words.size());
  learned.left_out_characters = corpus.left_out_characters();
  for (size_t i = 0; i < words.size(); ++i) {
    learned.words += static_cast<int64_t>(words.value(i));
  }
  learned.unknown_words = learned.words - corpus.known_words();
  if (learned.words == 0) {
    return DataError("no vocabulary can be learned: the text has no words");
  }
  if (learned.words == learned.unknown_words) {
    return DataError(
        absl::StrFormat("no vocabulary can be learned: none of the %d words has at most %d "
                        "characters of the alphabet",
                        learned.words, resolved.max_word_chars));
  }
  const std::vector<std::string> characters = corpus.SingleCharacters();
  const size_t needed = pieces.size() + characters.size();
  if (options.vocab_size < 0 || static_cast<size_t>(options.vocab_size) < needed) {
    return UsageError(absl::StrFormat(
        "vocab_size %d is too small: the special tokens and the characters, alone and as parts of "
        "words, need %d; raise it or lower limit_alphabet",
        options.vocab_size, needed));
  }
  const std::vector<std::string> merged =
      corpus.LearnMerges(static_cast<size_t>(options.vocab_size) - needed, options.min_frequency);
  pieces.insert(pieces.end(), characters.begin(), characters.end());
  pieces.insert(pieces.end(), merged.begin(), merged.end());
  return learned;
}

}  // namespace dtrain
