// piece_trie.cc - builds the double array of a vocabulary from its sorted pieces.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/piece_trie.h"

#include <algorithm>
#include <numeric>

#include "dtrain/base/check.h"

namespace dtrain::internal {

class PieceTrie::Builder {
 public:
  Builder(PieceTrie& trie, std::span<const std::string> pieces) : trie_(trie), pieces_(pieces) {
    for (size_t id = 0; id < pieces.size(); ++id) {
      if (!pieces[id].empty()) order_.push_back(static_cast<int32_t>(id));
    }
    std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) { return Of(a) < Of(b); });
    AddBlock();
    is_used_[0] = true;
    --free_[0];
  }

  // Depth does not recurse: a piece may have many thousands of bytes.
  void Build() {
    std::vector<Range> todo = {{0, order_.size(), 0, 0}};
    while (!todo.empty()) {
      const Range range = todo.back();
      todo.pop_back();
      Place(range, todo);
    }
  }

 private:
  // Pieces from `begin` to `end` in sorted order have the same first `depth` bytes: those of
  // `node`.
  struct Range {
    size_t begin;
    size_t end;
    size_t depth;
    int32_t node;
  };
  static constexpr size_t kBlock = 256;
  // Only the latest blocks are searched, and only if they have enough free places; the others are
  // nearly full.
  static constexpr size_t kOpenBlocks = 4;
  static constexpr size_t kMinFree = 16;

  static size_t Index(int32_t i) { return static_cast<size_t>(i); }
  const std::string& Of(int32_t id) const { return pieces_[Index(id)]; }

  void AddBlock() {
    DT_CHECK_LT(trie_.nodes_.size(), size_t{INT32_MAX} - kBlock) << "too large a vocabulary";
    trie_.nodes_.resize(trie_.nodes_.size() + kBlock);
    is_used_.resize(trie_.nodes_.size());
    free_.push_back(kBlock);
  }

  // A base in `block` for which all places for `bytes_` are free, or -1.
  int32_t BaseIn(size_t block) const {
    if (free_[block] < std::max(bytes_.size(), kMinFree)) return -1;
    for (size_t i = 0; i < kBlock; ++i) {
      const auto base = static_cast<int32_t>(block * kBlock + (i ^ bytes_[0]));
      if (std::all_of(bytes_.begin(), bytes_.end(),
                      [&](uint8_t b) { return !is_used_[Index(base ^ b)]; })) {
        return base;
      }
    }
    return -1;
  }

  int32_t FindBase() {
    for (size_t block = free_.size() - std::min(free_.size(), kOpenBlocks);; ++block) {
      if (block == free_.size()) AddBlock();
      if (const int32_t base = BaseIn(block); base >= 0) return base;
    }
  }

  // Gives places to the children of the range's node, and appends their ranges.
  void Place(Range range, std::vector<Range>& todo) {
    // The piece that ends here is the first in the order. Of equal ones the last counts.
    for (; range.begin < range.end && Of(order_[range.begin]).size() == range.depth; ++range.begin)
      trie_.nodes_[Index(range.node)].id = order_[range.begin];
    bytes_.clear();
    const size_t first = todo.size();
    for (size_t i = range.begin; i < range.end; ++i) {
      const auto byte = static_cast<uint8_t>(Of(order_[i])[range.depth]);
      if (bytes_.empty() || bytes_.back() != byte) {
        bytes_.push_back(byte);
        todo.push_back({i, i, range.depth + 1, 0});
      }
      todo.back().end = i + 1;
    }
    if (bytes_.empty()) return;
    const int32_t base = FindBase();
    trie_.nodes_[Index(range.node)].base = base;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const int32_t child = base ^ bytes_[i];
      todo[first + i].node = child;
      trie_.nodes_[Index(child)].parent = range.node;
      is_used_[Index(child)] = true;
      --free_[Index(child) / kBlock];
    }
  }

  PieceTrie& trie_;
  std::span<const std::string> pieces_;
  std::vector<int32_t> order_;
  std::vector<bool> is_used_;
  std::vector<size_t> free_;    // number of free places in each block
  std::vector<uint8_t> bytes_;  // bytes of the children being placed
};

PieceTrie::PieceTrie(std::span<const std::string> pieces) { Builder(*this, pieces).Build(); }

}  // namespace dtrain::internal
