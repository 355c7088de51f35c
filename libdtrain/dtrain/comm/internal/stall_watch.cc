// stall_watch.cc - the texts about late ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/stall_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"

namespace dtrain::internal {

double StallWatch::first_seconds() const {
  if (timeout_seconds_ <= 0) return warning_seconds_;
  return std::min(warning_seconds_, timeout_seconds_);
}

std::string StallWatch::RankNames(std::span<const int> ranks) const {
  std::string names;
  for (const int rank : ranks) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", topology_.RankName(rank));
  }
  return names;
}

std::string StallWatch::OnVoteWait(double seconds, std::span<const int> missing,
                                   const std::string& pending, bool has_join) {
  std::string text =
      absl::StrFormat("%s has waited %.1f s for %s", topology_.RankName(topology_.rank()), seconds,
                      RankNames(missing));
  if (missing.empty()) {
    absl::StrAppend(&text, "messages on their way, with ", pending);
  } else if (!pending.empty()) {
    absl::StrAppend(&text, ", which submitted nothing, with ", pending);
  } else {
    absl::StrAppend(&text,
                    has_join ? ", to join or to submit something" : ", to end its collectives too");
  }
  if (seconds > warning_seconds_ && !std::exchange(has_warned_, true)) LogWarning(text);
  has_warned_ = true;
  return IsTooLong(seconds) ? text + "; gave up" : "";
}

std::string StallWatch::OnStalled(const std::vector<Negotiation::Stalled>& stalled) const {
  double oldest = 0;
  std::string oldest_text;
  for (const Negotiation::Stalled& tensor : stalled) {
    if (tensor.first_rank != topology_.rank()) continue;
    std::string text = absl::StrFormat("\"%s\" has waited %.1f s for %s", tensor.name,
                                       tensor.seconds, RankNames(tensor.missing));
    if (!tensor.announced) LogWarning(text + "; other ranks have submitted it");
    if (tensor.seconds > oldest) {
      oldest = tensor.seconds;
      oldest_text = std::move(text);
    }
  }
  return IsTooLong(oldest) ? oldest_text + "; gave up" : "";
}

}  // namespace dtrain::internal
