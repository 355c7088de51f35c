// unigram_lattice.cc - walks from place to place of a word, in logarithms so that nothing vanishes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/unigram_lattice.h"

#include <algorithm>
#include <cmath>

#include "dtrain/tokenizers/internal/unigram_model.h"

namespace dtrain::internal {
namespace {

constexpr double kNoWay = -std::numeric_limits<double>::infinity();

}  // namespace

void UnigramLattice::Start(std::string_view word) {
  nodes_.assign(word.size() + 1, Node{kNoWay, 0.0, kNoWay, kNone});
  nodes_.front().sum = 0.0;
  edges_.clear();
}

template <typename Take>
size_t UnigramLattice::ForEachPiece(std::string_view rest, int32_t without,
                                    const Take& piece) const {
  const size_t character = CharacterSize(rest);
  bool is_piece = false;
  trie_.Walk(rest, [&](size_t size, int32_t id) {
    const double score = weights_.scores[static_cast<size_t>(id)];
    if (score == UnigramWeights::kDropped || id == without) return;
    is_piece |= size == character;
    piece(size, id, score);
  });
  if (!is_piece) piece(character, kUnknown, weights_.unknown);
  return character;
}

// The logarithm of a sum of exponentials. Edges get their shares of it.
void UnigramLattice::SumEdges(Node& node) {
  if (edges_[static_cast<size_t>(node.edges)].next == kNone) {
    Edge& only = edges_[static_cast<size_t>(node.edges)];
    node.sum = only.value;
    only.value = 1.0;
    return;
  }
  double sum = 0.0;
  for (int32_t i = node.edges; i != kNone; i = edges_[static_cast<size_t>(i)].next) {
    Edge& edge = edges_[static_cast<size_t>(i)];
    edge.value = std::exp(edge.value - node.best);
    sum += edge.value;
  }
  node.sum = node.best + std::log(sum);
  const double scale = 1.0 / sum;
  for (int32_t i = node.edges; i != kNone; i = edges_[static_cast<size_t>(i)].next) {
    edges_[static_cast<size_t>(i)].value *= scale;
  }
}

double UnigramLattice::Expect(std::string_view word, int64_t count, std::span<double> counts) {
  Start(word);
  for (size_t at = 0; at < word.size();) {
    if (at > 0) SumEdges(nodes_[at]);
    const double before = nodes_[at].sum;
    at += ForEachPiece(word.substr(at), kUnknown, [&](size_t size, int32_t id, double score) {
      Node& end = nodes_[at + size];
      const double value = before + score;
      edges_.push_back({value, static_cast<uint32_t>(at), id, end.edges});
      end.edges = static_cast<int32_t>(edges_.size() - 1);
      end.best = std::max(end.best, value);
    });
  }
  SumEdges(nodes_.back());
  // From the end to the begin: the ways through a place divide among the edges that end there.
  nodes_.back().share = static_cast<double>(count);
  for (size_t at = word.size(); at > 0; --at) {
    const Node& node = nodes_[at];
    for (int32_t i = node.edges; i != kNone; i = edges_[static_cast<size_t>(i)].next) {
      const Edge& edge = edges_[static_cast<size_t>(i)];
      const double expected = node.share * edge.value;
      nodes_[edge.begin].share += expected;
      if (edge.id != kUnknown) counts[static_cast<size_t>(edge.id)] += expected;
    }
  }
  return nodes_.back().sum;
}

std::span<const int32_t> UnigramLattice::BestWay(std::string_view word, int32_t without) {
  Start(word);
  for (size_t at = 0; at < word.size();) {
    const double before = nodes_[at].sum;
    at += ForEachPiece(word.substr(at), without, [&](size_t size, int32_t id, double score) {
      Node& end = nodes_[at + size];
      // Of equal ways the one that was there first stays.
      if (before + score <= end.sum) return;
      end.sum = before + score;
      end.edges = static_cast<int32_t>(edges_.size());
      edges_.push_back({end.sum, static_cast<uint32_t>(at), id, kNone});
    });
  }
  way_.clear();
  for (size_t at = word.size(); at > 0;) {
    const Edge& edge = edges_[static_cast<size_t>(nodes_[at].edges)];
    way_.push_back(edge.id);
    at = edge.begin;
  }
  return way_;
}

}  // namespace dtrain::internal
