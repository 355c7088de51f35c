// pair_merging.cc - a heap of merges, and a hash table of pairs.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/pair_merging.h"

#include <algorithm>
#include <bit>

namespace dtrain::internal {
namespace {

// Orders the heap: the lowest rank is at the top, and of equal ranks the leftmost.
struct ComesLater {
  bool operator()(const MergeScratch::Candidate& a, const MergeScratch::Candidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }
};

void PushCandidate(const PairTable& pairs, int32_t left, MergeScratch& scratch) {
  if (left < 0) return;
  const MergeScratch::Symbol& a = scratch.symbols[static_cast<size_t>(left)];
  if (a.next < 0) return;
  const MergeScratch::Symbol& b = scratch.symbols[static_cast<size_t>(a.next)];
  if (a.symbol < 0 || b.symbol < 0) return;
  const PairTable::Slot* slot = pairs.Find(a.symbol, b.symbol);
  if (slot == nullptr) return;
  scratch.heap.push_back({slot->rank, left, a.size + b.size, slot->merged});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), ComesLater());
}

}  // namespace

PairTable::PairTable(size_t capacity)
    : slots_(std::bit_ceil(capacity * 2 + 2), Slot{0, kNoSymbol, 0}),
      shift_(64 - std::countr_zero(slots_.size())) {}

void PairTable::Insert(int32_t left, int32_t right, int32_t merged, uint32_t rank) {
  const uint64_t key = Key(left, right);
  size_t i = First(key);
  while (slots_[i].merged != kNoSymbol) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = {key, merged, rank};
}

const PairTable::Slot* PairTable::Find(int32_t left, int32_t right) const {
  const uint64_t key = Key(left, right);
  for (size_t i = First(key); slots_[i].merged != kNoSymbol; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].key == key) return &slots_[i];
  }
  return nullptr;
}

void MergeSymbols(const PairTable& pairs, MergeDropout* dropout, MergeScratch& scratch) {
  scratch.heap.clear();
  for (size_t i = 0; i + 1 < scratch.symbols.size(); ++i) {
    PushCandidate(pairs, static_cast<int32_t>(i), scratch);
  }
  while (!scratch.heap.empty()) {
    const MergeScratch::Candidate top = scratch.heap.front();
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), ComesLater());
    scratch.heap.pop_back();
    MergeScratch::Symbol& left = scratch.symbols[static_cast<size_t>(top.left)];
    if (left.size == 0 || left.next < 0) continue;
    MergeScratch::Symbol& right = scratch.symbols[static_cast<size_t>(left.next)];
    // Text with the same length at the same place is the same text, so the candidate is still
    // valid.
    if (left.size + right.size != top.size) continue;
    if (dropout != nullptr && dropout->stream.NextUniform() < dropout->probability) continue;
    left.symbol = top.merged;
    left.size = top.size;
    left.next = right.next;
    right.size = 0;
    if (left.next >= 0) scratch.symbols[static_cast<size_t>(left.next)].previous = top.left;
    PushCandidate(pairs, left.previous, scratch);
    PushCandidate(pairs, top.left, scratch);
  }
}

}  // namespace dtrain::internal
