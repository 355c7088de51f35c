// metrics.cc - from tags to entities, and how many are the same.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/metrics.h"

#include <algorithm>

#include "dtrain/base/check.h"

namespace dtrain {
namespace {

double Ratio(double part, double whole) { return whole == 0.0 ? 0.0 : part / whole; }

}  // namespace

std::vector<Entity> EntitiesOf(std::span<const std::string> tags) {
  std::vector<Entity> entities;
  bool is_open = false;
  for (int64_t i = 0; i < static_cast<int64_t>(tags.size()); ++i) {
    const std::string_view tag = tags[static_cast<size_t>(i)];
    if (tag == "O") {
      is_open = false;
      continue;
    }
    const std::string_view type = tag.substr(2);
    const bool begins = !is_open || tag.starts_with("B-") || entities.back().type != type;
    if (begins) entities.push_back({.begin = i, .end = i, .type = std::string(type)});
    entities.back().end = i + 1;
    is_open = true;
  }
  return entities;
}

void EntityCounts::Add(std::span<const std::string> gold_tags,
                       std::span<const std::string> predicted_tags) {
  DT_CHECK_EQ(gold_tags.size(), predicted_tags.size()) << "tags of one sentence";
  const std::vector<Entity> ours = EntitiesOf(predicted_tags);
  const std::vector<Entity> theirs = EntitiesOf(gold_tags);
  gold += static_cast<int64_t>(theirs.size());
  predicted += static_cast<int64_t>(ours.size());
  correct += std::count_if(ours.begin(), ours.end(), [&](const Entity& entity) {
    return std::find(theirs.begin(), theirs.end(), entity) != theirs.end();
  });
}

double EntityCounts::Precision() const {
  return Ratio(static_cast<double>(correct), static_cast<double>(predicted));
}

double EntityCounts::Recall() const {
  return Ratio(static_cast<double>(correct), static_cast<double>(gold));
}

double EntityCounts::F1() const {
  return Ratio(2.0 * static_cast<double>(correct), static_cast<double>(predicted + gold));
}

}  // namespace dtrain
