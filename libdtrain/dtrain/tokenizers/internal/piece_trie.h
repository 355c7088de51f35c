// piece_trie.h - finds all pieces of a vocabulary that a text begins with.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_PIECE_TRIE_H_
#define DTRAIN_TOKENIZERS_INTERNAL_PIECE_TRIE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::internal {

class PieceTrie {
 public:
  PieceTrie() : PieceTrie(std::span<const std::string>()) {}
  // A piece's index is its id. Empty pieces are not found.
  explicit PieceTrie(std::span<const std::string> pieces);

  // Calls found(size, id) for each piece that `text` begins with, the shortest first.
  template <typename Found>
  void Walk(std::string_view text, const Found& found) const {
    int32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const int32_t child = nodes_[static_cast<size_t>(node)].base ^ static_cast<uint8_t>(text[i]);
      if (nodes_[static_cast<size_t>(child)].parent != node) return;
      node = child;
      const int32_t id = nodes_[static_cast<size_t>(node)].id;
      if (id >= 0) found(i + 1, id);
    }
  }

 private:
  // A double array: the child of `node` for byte c is at base ^ c, if that node's parent is `node`.
  // A base is below the number of nodes, in blocks of 256.
  struct Node {
    int32_t parent = -1;  // -1 if the place is free, and for the root
    int32_t base = 0;
    int32_t id = -1;  // -1 if no piece ends here
  };
  class Builder;

  std::vector<Node> nodes_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_PIECE_TRIE_H_
