// merge_learner.cc - counts pairs, and keeps the counts exact while pairs are merged.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/merge_learner.h"

#include <algorithm>
#include <cstring>

#include "dtrain/base/check.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "dtrain/tokenizers/internal/script.h"

namespace dtrain::internal {
namespace {

constexpr int32_t kUnknownCharacter = -1;
// Marks pairs that must be looked up again while a word is rewritten. No pair has this index.
constexpr uint32_t kStale = 0xFFFFFFFE;
constexpr size_t kFirstPairSlots = size_t{1} << 16;

size_t HashPair(int32_t left, int32_t right) {
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  return (key * 0x9E3779B97F4A7C15u) >> 20;
}

}  // namespace

MergeLearner::MergeLearner(const std::vector<uint32_t>& characters,
                           const BpeTrainerOptions& options, std::string_view continuing_prefix,
                           MergeOrder order)
    : options_(options),
      order_(order),
      prefix_size_(continuing_prefix.size()),
      pair_slots_(kFirstPairSlots, kNone) {
  for (const uint32_t c : characters) AddSymbol(c, c, {});
  if (continuing_prefix.empty()) return;
  for (const uint32_t c : characters) AddSymbol(c, c | kContinues, continuing_prefix);
}

void MergeLearner::AddSymbol(uint32_t character, uint32_t key, std::string_view prefix) {
  Symbol symbol;
  symbol.text = prefix;
  AppendUtf8(character, symbol.text);
  const bool has_script = options_.split_by_script && character != kMetaspaceCodePoint;
  symbol.first_script = symbol.last_script = has_script ? ScriptOf(character) : kAnyScript;
  symbol.merges = !(options_.split_digits && IsDigit(character));
  symbol_of_character_.emplace(key, static_cast<int32_t>(symbols_.size()));
  symbols_.push_back(std::move(symbol));
}

void MergeLearner::AddWord(std::string_view text, int64_t count) {
  DT_CHECK_LT(words_.size(), size_t{kNone}) << "too many distinct words";
  const auto index = static_cast<uint32_t>(words_.size());
  Word word{symbols_at_.size(), 0, count};
  const uint32_t continues = prefix_size_ > 0 ? kContinues : 0;
  for (size_t i = 0, size = 0; i < text.size(); i += size) {
    const uint32_t c = DecodeUtf8(text.substr(i), size);
    const auto at = symbol_of_character_.find(i == 0 ? c : c | continues);
    symbols_at_.push_back(at == symbol_of_character_.end() ? kUnknownCharacter : at->second);
  }
  word.length = static_cast<uint32_t>(symbols_at_.size() - word.begin);
  pairs_at_.resize(symbols_at_.size(), kNone);
  for (uint64_t i = word.begin; i + 1 < symbols_at_.size(); ++i) {
    pairs_at_[i] = PairAt(symbols_at_[i], symbols_at_[i + 1], index);
  }
  words_.push_back(word);
  CountPairs(word, count);
}

bool MergeLearner::MayMerge(const Symbol& left, const Symbol& right) const {
  if (!left.merges || !right.merges) return false;
  if (left.length + right.length > options_.max_piece_length) return false;
  return left.last_script == kAnyScript || right.first_script == kAnyScript ||
         left.last_script == right.first_script;
}

// Returns the index of the pair and records that it occurs in `word`; kNone if it must not be
// merged.
uint32_t MergeLearner::PairAt(int32_t left, int32_t right, uint32_t word) {
  if (left == kUnknownCharacter || right == kUnknownCharacter ||
      !MayMerge(symbols_[static_cast<size_t>(left)], symbols_[static_cast<size_t>(right)])) {
    return kNone;
  }
  const size_t mask = pair_slots_.size() - 1;
  size_t slot = HashPair(left, right) & mask;
  while (pair_slots_[slot] != kNone) {
    const Pair& pair = pairs_[pair_slots_[slot]];
    if (pair.left == left && pair.right == right) break;
    slot = (slot + 1) & mask;
  }
  uint32_t index = pair_slots_[slot];
  if (index == kNone) {
    index = static_cast<uint32_t>(pairs_.size());
    DT_CHECK_LT(index, kStale) << "too many distinct pairs";
    pairs_.push_back({left, right});
    pair_slots_[slot] = index;
    if (pairs_.size() * 2 > pair_slots_.size()) GrowPairSlots();
  }
  Pair& pair = pairs_[index];
  if (pair.words == kNone || nodes_[pair.words].word != word) {
    DT_CHECK_LT(nodes_.size(), size_t{kNone}) << "the corpus has too many distinct words";
    nodes_.push_back({word, pair.words});
    pair.words = static_cast<uint32_t>(nodes_.size() - 1);
  }
  if (!pair.is_queued) {
    pair.is_queued = true;
    grown_.push_back(index);
  }
  return index;
}

void MergeLearner::GrowPairSlots() {
  pair_slots_.assign(pair_slots_.size() * 4, kNone);
  const size_t mask = pair_slots_.size() - 1;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    size_t slot = HashPair(pairs_[i].left, pairs_[i].right) & mask;
    while (pair_slots_[slot] != kNone) slot = (slot + 1) & mask;
    pair_slots_[slot] = static_cast<uint32_t>(i);
  }
}

// Adds `count` to all pairs of the word. For kShortestFirst every other one of overlapping equal
// pairs ("aaa") counts, because only those can merge.
void MergeLearner::CountPairs(const Word& word, int64_t count) {
  uint32_t counted = kNone;
  for (uint64_t i = word.begin; i + 1 < word.begin + word.length; ++i) {
    const uint32_t pair = pairs_at_[i];
    const bool overlaps = pair == counted && order_ == MergeOrder::kShortestFirst;
    if (pair != kNone && !overlaps) pairs_[pair].count += count;
    counted = overlaps ? kNone : pair;
  }
}

void MergeLearner::MergeInWord(uint32_t index, uint32_t pair, int32_t merged) {
  Word& word = words_[index];
  int32_t* const symbols = symbols_at_.data() + word.begin;
  uint32_t* const pairs = pairs_at_.data() + word.begin;
  const uint32_t* const end = pairs + word.length - 1;
  // The word may have lost the pair through another merge, because its list entry remains.
  if (word.length < 2 || std::find<const uint32_t*>(pairs, end, pair) == end) return;
  CountPairs(word, -word.count);
  uint32_t out = 0;
  for (uint32_t in = 0; in < word.length; ++out) {
    if (in + 1 < word.length && pairs[in] == pair) {
      symbols[out] = merged;
      pairs[out] = kStale;
      if (out > 0) pairs[out - 1] = kStale;
      in += 2;
    } else {
      symbols[out] = symbols[in];
      pairs[out] = pairs[in];
      ++in;
    }
  }
  word.length = out;
  for (uint32_t i = 0; i + 1 < out; ++i) {
    if (pairs[i] == kStale) pairs[i] = PairAt(symbols[i], symbols[i + 1], index);
  }
  pairs[out - 1] = kNone;
  CountPairs(word, word.count);
}

// The same text is the same symbol, whatever pair it came from.
int32_t MergeLearner::MergedSymbol(uint32_t pair, bool& is_new) {
  const Symbol& left = symbols_[static_cast<size_t>(pairs_[pair].left)];
  const Symbol& right = symbols_[static_cast<size_t>(pairs_[pair].right)];
  Symbol merged;
  merged.text = left.text;
  merged.text += TextOfRight(right);
  merged.length = left.length + right.length;
  merged.first_script = left.first_script != kAnyScript ? left.first_script : right.first_script;
  merged.last_script = right.last_script != kAnyScript ? right.last_script : left.last_script;
  const auto [at, inserted] =
      symbol_of_text_.emplace(merged.text, static_cast<int32_t>(symbols_.size()));
  is_new = inserted;
  if (inserted) symbols_.push_back(std::move(merged));
  return at->second;
}

MergeLearner::HeapEntry MergeLearner::EntryOf(uint32_t pair) const {
  if (order_ == MergeOrder::kOldestFirst) {
    const uint64_t symbols =
        static_cast<uint64_t>(pairs_[pair].left) << 32 | static_cast<uint32_t>(pairs_[pair].right);
    return {pairs_[pair].count, symbols, 0, pair};
  }
  const Symbol& left = symbols_[static_cast<size_t>(pairs_[pair].left)];
  const Symbol& right = symbols_[static_cast<size_t>(pairs_[pair].right)];
  const std::string_view added = TextOfRight(right);
  uint64_t prefix = 0;
  for (size_t i = 0; i < 8; ++i) {
    uint8_t byte = 0;
    if (i < left.text.size()) {
      byte = static_cast<uint8_t>(left.text[i]);
    } else if (i - left.text.size() < added.size()) {
      byte = static_cast<uint8_t>(added[i - left.text.size()]);
    }
    prefix = prefix << 8 | byte;
  }
  return {pairs_[pair].count, prefix, left.length + right.length, pair};
}

bool MergeLearner::ComesLater(const HeapEntry& a, const HeapEntry& b) const {
  if (a.count != b.count) return a.count < b.count;
  if (a.length != b.length) return a.length > b.length;
  if (a.prefix != b.prefix) return a.prefix > b.prefix;
  if (a.pair == b.pair) return false;
  const auto text = [&](const HeapEntry& entry) {
    std::string merged = symbols_[static_cast<size_t>(pairs_[entry.pair].left)].text;
    return merged += TextOfRight(symbols_[static_cast<size_t>(pairs_[entry.pair].right)]);
  };
  const auto left_length = [&](const HeapEntry& entry) {
    return symbols_[static_cast<size_t>(pairs_[entry.pair].left)].length;
  };
  const int order = text(a).compare(text(b));
  // The same text made in two ways: any fixed order works.
  return order != 0 ? order > 0 : left_length(a) > left_length(b);
}

void MergeLearner::Push(uint32_t pair) {
  heap_.push_back(EntryOf(pair));
  std::push_heap(heap_.begin(), heap_.end(),
                 [this](const HeapEntry& a, const HeapEntry& b) { return ComesLater(a, b); });
}

void MergeLearner::PushGrown() {
  for (const uint32_t pair : grown_) {
    pairs_[pair].is_queued = false;
    if (pairs_[pair].count >= options_.min_frequency) Push(pair);
  }
  grown_.clear();
}

std::vector<std::string> MergeLearner::Learn(size_t max_pieces, std::vector<LearnedMerge>* merges) {
  std::vector<std::string> pieces;
  PushGrown();
  while (pieces.size() < max_pieces && !heap_.empty()) {
    const HeapEntry top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(),
                  [this](const HeapEntry& a, const HeapEntry& b) { return ComesLater(a, b); });
    heap_.pop_back();
    const int64_t count = pairs_[top.pair].count;
    if (count != top.count) {
      if (count < top.count && count >= options_.min_frequency) Push(top.pair);
      continue;
    }
    if (merges != nullptr) {
      const Pair& pair = pairs_[top.pair];
      merges->push_back({symbols_[static_cast<size_t>(pair.left)].text,
                         symbols_[static_cast<size_t>(pair.right)].text});
    }
    bool is_new;
    const int32_t merged = MergedSymbol(top.pair, is_new);
    if (is_new) pieces.push_back(symbols_[static_cast<size_t>(merged)].text);
    for (uint32_t node = pairs_[top.pair].words; node != kNone; node = nodes_[node].next) {
      MergeInWord(nodes_[node].word, top.pair, merged);
    }
    PushGrown();
  }
  return pieces;
}

}  // namespace dtrain::internal
