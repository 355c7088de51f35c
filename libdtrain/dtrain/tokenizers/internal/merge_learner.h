// merge_learner.h - repeatedly finds the most frequent pair of symbols and merges it everywhere.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_MERGE_LEARNER_H_
#define DTRAIN_TOKENIZERS_INTERNAL_MERGE_LEARNER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dtrain/tokenizers/bpe_trainer.h"

namespace dtrain::internal {

// Which of equally frequent pairs merges first, and how often a pair is in "aaa".
enum class MergeOrder {
  // The pair whose result is shorter, then the one whose result sorts first. "aaa" has the pair
  // "aa" once, since only one can merge.
  kShortestFirst,
  // The pair whose left symbol is older, then the one whose right symbol is: characters are in
  // the order given, before all merges. "aaa" has "aa" twice. `tokenizers` does so, and learns the
  // same merges.
  kOldestFirst
};

struct LearnedMerge {
  std::string left;
  std::string right;
};

// The counts of pairs stay exact after every merge, because every word that has the pair is
// visited. A heap, whose counts are corrected lazily, gives the next pair.
class MergeLearner {
 public:
  // `characters` may be part of a piece. With a prefix (WordPiece's "##"), a character inside a
  // word is a different symbol from the same character at its beginning. It is written with the
  // prefix, and so are pieces that begin with it. Without a prefix both are the same.
  MergeLearner(const std::vector<uint32_t>& characters, const BpeTrainerOptions& options,
               std::string_view continuing_prefix = {},
               MergeOrder order = MergeOrder::kShortestFirst);

  // Adds a word of valid UTF-8; for BPE it includes its U+2581.
  void AddWord(std::string_view text, int64_t count);

  // Returns at most `max_pieces` pieces of two or more characters, in the order of their merges.
  // `merges`, if not null, gets all merges in their order. There may be more of them than pieces,
  // since two pairs may have the same result.
  std::vector<std::string> Learn(size_t max_pieces, std::vector<LearnedMerge>* merges = nullptr);

 private:
  struct Symbol {
    std::string text;
    int32_t length = 1;         // in code points
    uint16_t first_script = 0;  // of the first character that has a script; kAnyScript if there is
                                // none
    uint16_t last_script = 0;
    bool merges = true;
  };
  struct Word {
    uint64_t begin;   // index into symbols_at_ and pairs_at_
    uint32_t length;  // shrinks as symbols merge
    int64_t count;
  };
  struct Pair {
    int32_t left;
    int32_t right;
    int64_t count = 0;
    uint32_t words = kNone;  // head of the list of words that had the pair at some time
    bool is_queued = false;  // in grown_
  };
  struct WordNode {
    uint32_t word;
    uint32_t next;
  };
  struct HeapEntry {
    int64_t count;  // when it was pushed; the true count is never higher
    // First eight bytes of the merged text, big-endian, which decide most ties. For kOldestFirst
    // both symbols, which decide all.
    uint64_t prefix;
    int32_t length;  // of the merged text, in code points; 0 for kOldestFirst
    uint32_t pair;
  };
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  static constexpr uint32_t kContinues = 0x80000000;

  void AddSymbol(uint32_t character, uint32_t key, std::string_view prefix);
  // The text that a right symbol adds to a merged one.
  std::string_view TextOfRight(const Symbol& right) const {
    return std::string_view(right.text).substr(prefix_size_);
  }
  uint32_t PairAt(int32_t left, int32_t right, uint32_t word);
  void GrowPairSlots();
  bool MayMerge(const Symbol& left, const Symbol& right) const;
  void CountPairs(const Word& word, int64_t count);
  void MergeInWord(uint32_t word, uint32_t pair, int32_t merged);
  int32_t MergedSymbol(uint32_t pair, bool& is_new);
  HeapEntry EntryOf(uint32_t pair) const;
  bool ComesLater(const HeapEntry& a, const HeapEntry& b) const;
  void Push(uint32_t pair);
  void PushGrown();

  BpeTrainerOptions options_;
  MergeOrder order_;
  size_t prefix_size_;  // number of bytes before the text of a symbol that continues a word
  std::vector<Symbol> symbols_;
  std::unordered_map<std::string, int32_t> symbol_of_text_;
  // By code point. With a prefix, characters that continue a word have kContinues set.
  std::unordered_map<uint32_t, int32_t> symbol_of_character_;
  std::vector<Word> words_;
  std::vector<int32_t> symbols_at_;
  std::vector<uint32_t>
      pairs_at_;  // pairs_at_[i] is the pair of symbols i and i + 1; kNone if they never merge
  std::vector<Pair> pairs_;
  std::vector<uint32_t> pair_slots_;  // hash table of indices into pairs_
  std::vector<WordNode> nodes_;
  std::vector<uint32_t> grown_;
  std::vector<HeapEntry> heap_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_MERGE_LEARNER_H_
