// unigram_model.cc - the search for the best way, from one place that all ways share to the next.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/unigram_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dtrain::internal {
namespace {

constexpr double kNoSum = -std::numeric_limits<double>::infinity();

}  // namespace

UnigramModel::UnigramModel(UnigramScores scores)
    : surfaces_(std::move(scores.surfaces)),
      scores_(std::move(scores.scores)),
      trie_(surfaces_),
      unk_id_(scores.unk_id),
      unk_score_(scores.unk_score),
      largest_(std::abs(scores.unk_score)),
      unit_(scores.rounds_sums ? std::numeric_limits<float>::epsilon()
                               : std::numeric_limits<double>::epsilon()),
      rounds_sums_(scores.rounds_sums) {
  for (const double score : scores_) largest_ = std::max(largest_, std::abs(score));
  has_inner_spaces_ = std::any_of(surfaces_.begin(), surfaces_.end(), [](const std::string& text) {
    return text.find(' ', 1) != std::string::npos;
  });
}

size_t UnigramModel::NextSegment(std::string_view text, double& sum, double& gap,
                                 UnigramScratch& scratch) const {
  using Node = UnigramScratch::Node;
  std::vector<Node>& nodes = scratch.nodes;
  nodes.assign(1, Node{sum, kNoSum, 0, UnigramScratch::kNone});
  size_t at = 0;
  const auto reach = [&](size_t size, int32_t id, double candidate) {
    const size_t end = at + size;
    if (end >= nodes.size()) nodes.resize(end + 1, Node{0, kNoSum, 0, UnigramScratch::kNone});
    Node& node = nodes[end];
    if (node.id == UnigramScratch::kNone || candidate > node.sum) {
      // Of equal ways the one whose last piece is longest, which was there first, stays.
      node.second = node.id == UnigramScratch::kNone ? kNoSum : node.sum;
      node.sum = candidate;
      node.begin = static_cast<uint32_t>(at);
      node.id = id;
    } else {
      node.second = std::max(node.second, candidate);
    }
  };
  do {
    const size_t character = CharacterSize(text.substr(at));
    const double before = nodes[at].sum;
    bool is_piece = false;
    trie_.Walk(text.substr(at), [&](size_t size, int32_t id) {
      reach(size, id, Round(before + scores_[static_cast<size_t>(id)]));
      is_piece |= size == character;
    });
    if (!is_piece) reach(character, unk_id_, Unknown(before));
    at += character;
  } while (at + 1 < nodes.size());

  scratch.steps.clear();
  for (size_t end = at; end > 0; end = nodes[end].begin) {
    const Node& node = nodes[end];
    const double difference = node.sum - node.second;
    gap = std::min(gap, difference > 0.0 ? difference : 0.0);  // 0, too, of infinite sums
    scratch.steps.push_back({node.id, static_cast<uint32_t>(end) - node.begin});
  }
  std::reverse(scratch.steps.begin(), scratch.steps.end());
  sum = nodes[at].sum;
  return at;
}

}  // namespace dtrain::internal
