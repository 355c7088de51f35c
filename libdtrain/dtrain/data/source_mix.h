// source_mix.h - draws the samples of an epoch from several sources, by their weights.
// SPDX-License-Identifier: Apache-2.0
//
// An epoch has as many samples as all sources together. Each source gives the share of them that
// its weight is of all weights. It gives its samples in rounds: none again before all others, from
// epoch to epoch. So a source that gives more samples than it has repeats them, and of one that
// gives fewer, later epochs have those that earlier ones left out.
//
//   const std::vector<SampleSource> sources = {{.samples = 90'000}, {.samples = 2'000}};
//   std::vector<uint32_t> rows = DrawSamples(sources, epoch, {.seed = 1});  // half of each
#ifndef DTRAIN_DATA_SOURCE_MIX_H_
#define DTRAIN_DATA_SOURCE_MIX_H_

#include <cstdint>
#include <span>
#include <vector>

namespace dtrain {

// Consecutive samples, which follow those of the source before.
struct SampleSource {
  int64_t samples = 0;  // at least 1
  double weight = 1.0;  // above 0

  friend bool operator==(const SampleSource&, const SampleSource&) = default;
};

// Number of samples that each source gives to an epoch. The sum is the number of all samples. A
// very small weight may give 0.
std::vector<int64_t> SamplesPerEpoch(std::span<const SampleSource> sources);

struct DrawOptions {
  bool shuffle = true;  // false: each round is in the order of the source
  uint64_t seed = 0;
};

// The samples of an epoch, counted from 0: those of each source are spread evenly, and in each
// round of a source in another order. The result depends on the arguments alone.
std::vector<uint32_t> DrawSamples(std::span<const SampleSource> sources, int64_t epoch,
                                  const DrawOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_DATA_SOURCE_MIX_H_
