// nearest_name.cc - edit distance, and the choice of suggestions.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/config/nearest_name.h"

#include <algorithm>
#include <utility>

namespace dtrain {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace

std::string_view LastPart(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

size_t EditDistance(std::string_view a, std::string_view b) {
  // Three rows of the table: the current one, the previous one, and the one before it for swaps.
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> previous(b.size() + 1);
  std::vector<size_t> current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::vector<std::string> NearestNames(std::string_view mistyped,
                                      const std::vector<std::string>& candidates, size_t limit) {
  const std::string name = Lower(mistyped.substr(0, 200));
  std::vector<std::pair<size_t, const std::string*>> close;
  size_t best = std::string_view::npos;
  for (const std::string& candidate : candidates) {
    // Compares whole paths. A match of the last part alone counts one more, because the section
    // differs.
    size_t distance = EditDistance(name, candidate);
    const std::string_view last = LastPart(candidate);
    distance = std::min(distance, EditDistance(LastPart(name), last) + 1);
    // The name is part of a longer one, and long enough to be meaningful: "dropout" in
    // "attention_dropout".
    const std::string_view typed = LastPart(name);
    if (typed.size() >= 4 && last.find(typed) != std::string_view::npos) {
      distance = std::min(distance, size_t{2});
    }
    const size_t allowed = std::max<size_t>(2, std::min(typed.size(), last.size()) / 3 + 1);
    if (distance <= allowed) {
      close.emplace_back(distance, &candidate);
      best = std::min(best, distance);
    }
  }
  std::stable_sort(close.begin(), close.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (const auto& [distance, candidate] : close) {
    // If a near match exists, distant ones would only confuse.
    if (names.size() == limit || distance > best + 1) break;
    names.push_back(*candidate);
  }
  return names;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates,
                       std::string_view prefix) {
  return DidYouMeanOneOf(NearestNames(name, candidates), prefix);
}

std::string DidYouMeanOneOf(const std::vector<std::string>& names, std::string_view prefix) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += std::string(prefix) + names[i];
  }
  return names.empty() ? "" : "; did you mean " + text + "?";
}

}  // namespace dtrain
