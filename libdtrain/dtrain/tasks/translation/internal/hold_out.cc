// hold_out.cc - a bounded map by hash.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/internal/hold_out.h"

#include <iterator>

#include "dtrain/data/internal/hash.h"
#include "dtrain/tasks/translation/internal/train_sources.h"

namespace dtrain::internal {

void HoldOut::Add(const PairBlock& block, std::string_view tag) {
  for (int64_t i = 0; i < block.pairs() && capacity_ > 0; ++i) {
    const auto row = static_cast<size_t>(i);
    const uint64_t key = MixHash(block.hashes[row].source, 0x686F6C64);
    if (static_cast<int64_t>(pairs_.size()) == capacity_ && key >= pairs_.rbegin()->first) {
      continue;
    }
    pairs_.try_emplace(key, WithTag(tag, block.lines[2 * row]), block.lines[2 * row + 1]);
    if (static_cast<int64_t>(pairs_.size()) > capacity_) pairs_.erase(std::prev(pairs_.end()));
  }
}

std::vector<std::pair<std::string, std::string>> HoldOut::Take(int64_t count) {
  std::vector<std::pair<std::string, std::string>> taken;
  while (static_cast<int64_t>(taken.size()) < count && !pairs_.empty()) {
    taken.push_back(std::move(pairs_.begin()->second));
    pairs_.erase(pairs_.begin());
  }
  return taken;
}

}  // namespace dtrain::internal
