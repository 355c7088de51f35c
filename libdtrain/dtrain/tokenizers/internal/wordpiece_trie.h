// wordpiece_trie.h - longest-match-first tokenization of a word in linear time.
// SPDX-License-Identifier: Apache-2.0
//
// Song, Salcianu, Song, Dopson, Zhou, "Fast WordPiece Tokenization" (2021, arXiv 2012.15524),
// algorithms 1 and 2. It uses a trie whose nodes store what to do if the text does not continue in
// the trie. Each node v has a failure link f(v) and pops F(v). F(v) are the pieces that greedy
// matching would have taken from the text on the way to v, and f(v) is the node of the rest.
#ifndef DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_TRIE_H_
#define DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_TRIE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::internal {

class WordPieceTrie {
 public:
  // Pieces that begin with "##" continue words, others begin them. A piece's index is its id.
  // Pieces longer than `max_piece_bytes` are ignored, because no word is that long.
  WordPieceTrie(std::span<const std::string> pieces, size_t max_piece_bytes);

  // Appends the ids of `word` (not empty). Returns false, without appending, if it cannot be
  // divided into pieces.
  bool Match(std::string_view word, std::vector<int32_t>& ids) const {
    const size_t begin = ids.size();
    int32_t node = kWordRoot;
    for (const char c : word) {
      int32_t next = Child(node, static_cast<uint8_t>(c));
      while (next < 0) {
        if (!Pop(node, ids)) {
          ids.resize(begin);
          return false;
        }
        next = Child(node, static_cast<uint8_t>(c));
      }
      node = next;
    }
    while (node != kSuffixRoot) {
      if (!Pop(node, ids)) {
        ids.resize(begin);
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr int32_t kWordRoot = 0;
  static constexpr int32_t kSuffixRoot = 1;

  // A double array: the child of `node` for byte c is at base ^ c, if that node's parent is `node`.
  struct Node {
    int32_t parent = -1;  // -1 if the place is free, and for the roots
    int32_t base = 0;
  };
  struct Link {
    int32_t failure = -1;
    uint32_t num_pops = 0;
    uint64_t pops = 0;  // index of the first pop
  };
  class Builder;

  int32_t Child(int32_t node, uint8_t c) const {
    const int32_t child = nodes_[static_cast<size_t>(node)].base ^ c;
    return nodes_[static_cast<size_t>(child)].parent == node ? child : -1;
  }
  // Takes the pieces of `node` and continues with the rest. Returns false if there is no way to
  // continue.
  bool Pop(int32_t& node, std::vector<int32_t>& ids) const {
    const Link& link = links_[static_cast<size_t>(node)];
    if (link.failure < 0) return false;
    const auto first = pops_.begin() + static_cast<std::ptrdiff_t>(link.pops);
    ids.insert(ids.end(), first, first + link.num_pops);
    node = link.failure;
    return true;
  }

  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<int32_t> pops_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_TRIE_H_
