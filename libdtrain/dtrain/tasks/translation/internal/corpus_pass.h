// corpus_pass.h - one streaming pass over the training text, cleaned in parallel, in order.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_INTERNAL_CORPUS_PASS_H_
#define DTRAIN_TASKS_TRANSLATION_INTERNAL_CORPUS_PASS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/data/text_reader.h"
#include "dtrain/tasks/translation/cleaning.h"
#include "dtrain/tasks/translation/prepare.h"

namespace dtrain::internal {

StatusOr<ParallelTextReader> OpenParallel(const ParallelInput& input,
                                          const TextReaderOptions& options);

// Some thousand pairs in file order. Unused strings keep their memory for the next block.
struct PairBlock {
  std::vector<std::string> lines;  // source and target of pair i are lines 2 i and 2 i + 1
  std::vector<int64_t> numbers;    // [pairs]: line number in the file
  std::vector<LineProblem> problems;
  std::vector<PairHashes> hashes;

  int64_t pairs() const { return static_cast<int64_t>(numbers.size()); }
  std::span<const std::string> used_lines() const {
    return std::span(lines).first(2 * numbers.size());
  }
};

// Passes every block of kept pairs to `consume`, in order, on the calling thread. Dropped pairs are
// counted in `report`; the consumer must count kept ones. `path` is the block's file. Returns the
// number of TSV lines with more than two columns, or the number of entries of another file that
// lack a language.
using BlockConsumer = std::function<Status(PairBlock& block, const std::string& path)>;
StatusOr<int64_t> ForEachCleanBlock(const ParallelInput& input, const TextReaderOptions& options,
                                    PairCleaner& cleaner, CleaningReport& report,
                                    const BlockConsumer& consume);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TRANSLATION_INTERNAL_CORPUS_PASS_H_
