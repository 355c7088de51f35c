// issued_collectives.cc - digest, arrival and comparison of collectives on a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/issued_collectives.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dtrain::internal {
namespace {

// FNV-1a, eight bytes at a time.
void Absorb(int64_t value, uint64_t& digest) {
  digest = (digest ^ static_cast<uint64_t>(value)) * 0x100000001b3U;
}

}  // namespace

void IssuedCollectives::Add(std::span<const NcclCall> calls) {
  for (const NcclCall& call : calls) {
    if (!call.IsAlikeOnAllRanks()) {
      Absorb(static_cast<int64_t>(call.kind), digest_);
      continue;
    }
    for (const int64_t value :
         {static_cast<int64_t>(call.kind), call.count, static_cast<int64_t>(call.dtype),
          static_cast<int64_t>(call.op), static_cast<int64_t>(call.root)}) {
      Absorb(value, digest_);
    }
  }
  last_ = Describe(calls.back());
  number_ += static_cast<int64_t>(calls.size());
}

bool IssuedCollectives::Reap() {
  bool has_moved = false;
  while (!in_flight_.empty() && in_flight_.front().arrived.HasPassed()) {
    in_flight_.pop_front();
    has_moved = true;
  }
  return has_moved;
}

IssuedCollectives::Summary IssuedCollectives::Summarize() const {
  Summary summary{.number = number_, .digest = digest_};
  std::strncpy(summary.last.data(), last_.c_str(), summary.last.size() - 1);
  return summary;
}

std::string IssuedCollectives::DescribeWait(double seconds, const RankTopology& topology,
                                            const std::string& device,
                                            std::span<const int> missing) const {
  const int64_t number = in_flight_.empty() ? number_ : in_flight_.front().number;
  std::string text =
      absl::StrFormat("%s has waited %.0f s in %s on %s, collective number %d, for ",
                      topology.RankName(topology.rank()), seconds, current(), device, number);
  for (size_t i = 0; i < missing.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", topology.RankName(missing[i]));
  }
  if (missing.empty()) {
    text += "the network between the GPUs: all ranks have issued it (NCCL_DEBUG=INFO says more)";
  }
  return text;
}

std::string IssuedCollectives::FindDifference(std::span<const Summary> all,
                                              const RankTopology& topology) {
  for (size_t r = 1; r < all.size(); ++r) {
    const Summary& first = all[0];
    const Summary& other = all[r];
    if (first.number == other.number && first.digest == other.digest) continue;
    return absl::StrFormat(
        "%s has issued %d collectives, the last an %s, but %s %d, the last an %s: all ranks must "
        "issue the same in the same order",
        topology.RankName(0), first.number, first.last.data(),
        topology.RankName(static_cast<int>(r)), other.number, other.last.data());
  }
  return "";
}

}  // namespace dtrain::internal
