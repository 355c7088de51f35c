// typical_pairs.cc - ranks pairs by prose, then by how far their length is from the median.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/typical_pairs.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <tuple>

#include "dtrain/base/check.h"

namespace dtrain {

bool IsProse(std::string_view text) {
  constexpr std::string_view kMarkup = "<>{}[]|\\_@#$%^*=~`";
  if (text.find_first_of(kMarkup) != std::string_view::npos) return false;
  int64_t letters = 0;
  int64_t others = 0;
  const auto* p = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (auto left = static_cast<utf8proc_ssize_t>(text.size()); left > 0;) {
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t bytes = utf8proc_iterate(p, left, &c);
    if (bytes <= 0) return false;
    const utf8proc_category_t category = utf8proc_category(c);
    const bool is_letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_ME;
    if (is_letter) {
      ++letters;
    } else if (c != ' ') {
      ++others;
    }
    p += bytes;
    left -= bytes;
  }
  constexpr int64_t kFewestLetters = 8;
  return letters >= kFewestLetters && letters >= 4 * others;
}

std::vector<size_t> TypicalPairs(std::span<const std::string> sources,
                                 std::span<const std::string> targets, size_t count) {
  DT_CHECK_EQ(sources.size(), targets.size());
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (order.empty()) return order;
  std::vector<size_t> lengths;
  for (const std::string& source : sources) lengths.push_back(source.size());
  const auto middle = lengths.begin() + static_cast<int64_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  const size_t median = *middle;
  const auto rank = [&](size_t i) {
    const size_t length = sources[i].size();
    const bool is_prose = IsProse(sources[i]) && IsProse(targets[i]);
    return std::tuple(!is_prose, length > median ? length - median : median - length, i);
  };
  using Rank = decltype(rank(0));
  std::vector<Rank> ranks;
  for (const size_t i : order) ranks.push_back(rank(i));
  const size_t taken = std::min(count, ranks.size());
  std::partial_sort(ranks.begin(), ranks.begin() + static_cast<int64_t>(taken), ranks.end());
  order.resize(taken);
  for (size_t i = 0; i < taken; ++i) order[i] = std::get<2>(ranks[i]);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace dtrain
