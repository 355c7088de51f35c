// source_mix.cc - shares by largest remainders, rounds by shuffles of their own.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/source_mix.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "dtrain/base/check.h"
#include "dtrain/data/internal/shuffle.h"

namespace dtrain {
namespace {

// Sites of the random streams for the rounds of sources: this one, and the next ones.
constexpr uint32_t kRoundSite = 0x524E4400;

// Appends samples `begin` to `end` - 1 of the endless rounds of one source.
void AppendRounds(int64_t begin, int64_t end, uint32_t first_row, const SampleSource& source,
                  const RandomKey& key, bool shuffle, std::vector<uint32_t>& rows) {
  std::vector<uint32_t> round(static_cast<size_t>(source.samples));
  while (begin < end) {
    const int64_t number = begin / source.samples;
    std::iota(round.begin(), round.end(), first_row);
    if (shuffle) {
      internal::Shuffle(
          std::span(round),
          {.seed = key.seed, .step = static_cast<uint32_t>(number), .site = key.site});
    }
    const int64_t stop = std::min(end, (number + 1) * source.samples);
    const int64_t of_round = number * source.samples;
    rows.insert(rows.end(), round.begin() + (begin - of_round), round.begin() + (stop - of_round));
    begin = stop;
  }
}

// Puts the samples of sources, which follow one another, where their shares fall due: after n
// samples, about n times its share are of each source.
std::vector<uint32_t> Interleave(const std::vector<uint32_t>& rows,
                                 const std::vector<int64_t>& shares) {
  std::vector<size_t> next(shares.size());
  for (size_t s = 1; s < shares.size(); ++s) {
    next[s] = next[s - 1] + static_cast<size_t>(shares[s - 1]);
  }
  std::vector<int64_t> taken(shares.size());
  const auto total = static_cast<int64_t>(rows.size());
  std::vector<uint32_t> mixed;
  mixed.reserve(rows.size());
  for (int64_t n = 1; n <= total; ++n) {
    size_t due = shares.size();
    double most = 0.0;
    for (size_t s = 0; s < shares.size(); ++s) {
      if (taken[s] == shares[s]) continue;
      const double owed =
          static_cast<double>(shares[s]) * static_cast<double>(n) / static_cast<double>(total) -
          static_cast<double>(taken[s]);
      if (due < shares.size() && owed <= most) continue;
      due = s;
      most = owed;
    }
    mixed.push_back(rows[next[due]++]);
    ++taken[due];
  }
  return mixed;
}

}  // namespace

std::vector<int64_t> SamplesPerEpoch(std::span<const SampleSource> sources) {
  int64_t total = 0;
  double weights = 0.0;
  for (const SampleSource& source : sources) {
    DT_CHECK_GT(source.samples, 0);
    DT_CHECK(source.weight > 0.0) << source.weight;
    total += source.samples;
    weights += source.weight;
  }
  std::vector<int64_t> shares;
  std::vector<double> remainders;
  int64_t left = total;
  for (const SampleSource& source : sources) {
    const double exact = static_cast<double>(total) * (source.weight / weights);
    shares.push_back(std::min(static_cast<int64_t>(exact), left));
    remainders.push_back(exact - static_cast<double>(shares.back()));
    left -= shares.back();
  }
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  for (size_t i = 0; left > 0; ++i, --left) ++shares[order[i % order.size()]];
  return shares;
}

std::vector<uint32_t> DrawSamples(std::span<const SampleSource> sources, int64_t epoch,
                                  const DrawOptions& options) {
  DT_CHECK_GE(epoch, 0);
  const std::vector<int64_t> shares = SamplesPerEpoch(sources);
  std::vector<uint32_t> rows;
  rows.reserve(static_cast<size_t>(std::accumulate(shares.begin(), shares.end(), int64_t{0})));
  int64_t first_row = 0;
  for (size_t s = 0; s < sources.size(); ++s) {
    AppendRounds(epoch * shares[s], (epoch + 1) * shares[s], static_cast<uint32_t>(first_row),
                 sources[s], {.seed = options.seed, .site = kRoundSite + static_cast<uint32_t>(s)},
                 options.shuffle, rows);
    first_row += sources[s].samples;
  }
  return Interleave(rows, shares);
}

}  // namespace dtrain
