// wordpiece_trie.cc - builds the trie as a double array, then its failure links, breadth first.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/wordpiece_trie.h"

#include <algorithm>
#include <cstddef>

#include "dtrain/base/check.h"

namespace dtrain::internal {

class WordPieceTrie::Builder {
 public:
  explicit Builder(WordPieceTrie& trie) : trie_(trie), plain_(2) {}

  void Insert(std::string_view piece, int32_t id) {
    int32_t node = kWordRoot;
    if (piece.starts_with("##")) {
      node = kSuffixRoot;
      piece.remove_prefix(2);
    }
    if (piece.empty()) return;
    for (const char c : piece) node = ChildOrNew(node, static_cast<uint8_t>(c));
    plain_[Index(node)].id = id;
  }

  void Finish() {
    AddBlock();
    trie_.nodes_[kWordRoot].base = trie_.nodes_[kSuffixRoot].base = 0;
    is_used_[kWordRoot] = is_used_[kSuffixRoot] = true;
    plain_[kWordRoot].place = kWordRoot;
    plain_[kSuffixRoot].place = kSuffixRoot;
    // Breadth-first order: nodes that a link may lead to come first.
    std::vector<int32_t> order = {kWordRoot, kSuffixRoot};
    for (size_t i = 0; i < order.size(); ++i) {
      const int32_t parent = order[i];
      PlaceChildren(parent);
      for (int32_t c = plain_[Index(parent)].child; c >= 0; c = plain_[Index(c)].sibling) {
        order.push_back(c);
      }
    }
    trie_.links_.resize(trie_.nodes_.size());
    for (const int32_t node : order) {
      for (int32_t c = plain_[Index(node)].child; c >= 0; c = plain_[Index(c)].sibling) {
        LinkChild(plain_[Index(node)].place, plain_[Index(c)]);
      }
    }
  }

 private:
  // The trie as lists of children, before their places in the double array are known.
  struct Plain {
    int32_t child = -1;
    int32_t sibling = -1;
    int32_t id = -1;
    int32_t place = -1;
    uint8_t byte = 0;
  };
  static constexpr size_t kBlock = 256;
  // Only the latest blocks are searched, and only if they have enough free places; the others are
  // nearly full.
  static constexpr size_t kOpenBlocks = 4;
  static constexpr size_t kMinFree = 16;

  static size_t Index(int32_t i) { return static_cast<size_t>(i); }

  int32_t ChildOrNew(int32_t node, uint8_t byte) {
    for (int32_t c = plain_[Index(node)].child; c >= 0; c = plain_[Index(c)].sibling) {
      if (plain_[Index(c)].byte == byte) return c;
    }
    const auto child = static_cast<int32_t>(plain_.size());
    plain_.push_back({.sibling = plain_[Index(node)].child, .byte = byte});
    plain_[Index(node)].child = child;
    return child;
  }

  void AddBlock() {
    DT_CHECK_LT(trie_.nodes_.size(), size_t{INT32_MAX} - kBlock) << "too large a vocabulary";
    trie_.nodes_.resize(trie_.nodes_.size() + kBlock);
    is_used_.resize(trie_.nodes_.size());
    free_.push_back(static_cast<int32_t>(kBlock));
    if (free_.size() == 1) free_[0] -= 2;  // the two roots
  }

  // A base in `block` for which all places for `bytes_` are free, or -1.
  int32_t BaseIn(size_t block) const {
    if (static_cast<size_t>(free_[block]) < std::max(bytes_.size(), kMinFree)) return -1;
    for (size_t i = 0; i < kBlock; ++i) {
      const auto base = static_cast<int32_t>(block * kBlock + (i ^ bytes_[0]));
      if (std::all_of(bytes_.begin(), bytes_.end(),
                      [&](uint8_t b) { return !is_used_[Index(base ^ b)]; })) {
        return base;
      }
    }
    return -1;
  }

  void PlaceChildren(int32_t parent) {
    bytes_.clear();
    for (int32_t c = plain_[Index(parent)].child; c >= 0; c = plain_[Index(c)].sibling) {
      bytes_.push_back(plain_[Index(c)].byte);
    }
    if (bytes_.empty()) return;
    int32_t base = -1;
    size_t block = free_.size() - std::min(free_.size(), kOpenBlocks);
    for (; base < 0; ++block) {
      if (block == free_.size()) AddBlock();
      base = BaseIn(block);
    }
    const int32_t place = plain_[Index(parent)].place;
    trie_.nodes_[Index(place)].base = base;
    for (int32_t c = plain_[Index(parent)].child; c >= 0; c = plain_[Index(c)].sibling) {
      const int32_t child = base ^ plain_[Index(c)].byte;
      plain_[Index(c)].place = child;
      trie_.nodes_[Index(child)].parent = place;
      is_used_[Index(child)] = true;
      --free_[Index(child) / kBlock];
    }
  }

  // Algorithm 2. If the node is a piece, the rest is the empty suffix; otherwise follow the
  // parent's failure links.
  void LinkChild(int32_t parent, const Plain& child) {
    Link& link = trie_.links_[Index(child.place)];
    link.pops = trie_.pops_.size();
    if (child.id >= 0) {
      trie_.pops_.push_back(child.id);
      link.num_pops = 1;
      link.failure = kSuffixRoot;
      return;
    }
    int32_t node = parent;
    while (true) {
      const Link& from = trie_.links_[Index(node)];
      for (uint32_t i = 0; from.failure >= 0 && i < from.num_pops; ++i) {
        trie_.pops_.push_back(trie_.pops_[from.pops + i]);
      }
      node = from.failure;
      if (node < 0) {  // the word is unknown, whatever was taken before
        trie_.pops_.resize(link.pops);
        return;
      }
      const int32_t next = trie_.Child(node, child.byte);
      if (next < 0) continue;
      link.num_pops = static_cast<uint32_t>(trie_.pops_.size() - link.pops);
      link.failure = next;
      return;
    }
  }

  WordPieceTrie& trie_;
  std::vector<Plain> plain_;
  std::vector<bool> is_used_;
  std::vector<int32_t> free_;   // number of free places in each block
  std::vector<uint8_t> bytes_;  // bytes of the children being placed
};

WordPieceTrie::WordPieceTrie(std::span<const std::string> pieces, size_t max_piece_bytes) {
  Builder builder(*this);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].size() <= max_piece_bytes + 2) {
      builder.Insert(pieces[i], static_cast<int32_t>(i));
    }
  }
  builder.Finish();
}

}  // namespace dtrain::internal
