// line_sample.cc - keeps each new line with the chance that it has among all lines so far.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/line_sample.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/random.h"
#include "dtrain/base/utf8.h"

namespace dtrain {
namespace {

// Uniform in [0, bound) but for less than bound / 2^64.
uint64_t NextBelow(RandomStream& random, uint64_t bound) {
  const uint64_t high = random.NextUint32();
  const unsigned __int128 bits = high << 32 | random.NextUint32();
  return static_cast<uint64_t>(bits * bound >> 64);
}

}  // namespace

StatusOr<LineSource> SampleLines(const LineSource& source, int64_t count, uint64_t seed) {
  DT_CHECK_GE(count, 1);
  RandomStream random({.seed = seed});
  auto kept = std::make_shared<std::vector<std::string>>();
  std::vector<std::string> batch;
  for (uint64_t seen = 0;;) {
    batch.clear();
    DT_RETURN_IF_ERROR(source(batch));
    if (batch.empty()) break;
    for (std::string& line : batch) {
      if (IsBlank(line)) continue;
      ++seen;
      if (seen <= static_cast<uint64_t>(count)) {
        kept->push_back(std::move(line));
      } else if (const uint64_t place = NextBelow(random, seen);
                 place < static_cast<uint64_t>(count)) {
        (*kept)[place] = std::move(line);
      }
    }
  }
  return LineSource([kept](std::vector<std::string>& lines) {
    lines = std::move(*kept);
    kept->clear();
    return OkStatus();
  });
}

}  // namespace dtrain
