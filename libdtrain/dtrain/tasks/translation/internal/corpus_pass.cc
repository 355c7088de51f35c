// corpus_pass.cc - cleans and consumes one block while the next one is read.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/internal/corpus_pass.h"

#include <future>
#include <utility>

#include "dtrain/base/thread_pool.h"

namespace dtrain::internal {
namespace {

constexpr int64_t kBlockPairs = 16384;
constexpr int64_t kBlockBytes = 8 << 20;

// Refills the block. An empty block means the end of the file.
Status ReadBlock(ParallelTextReader& reader, PairBlock& block) {
  block.numbers.clear();
  block.problems.clear();
  int64_t bytes = 0;
  TextPair pair;
  while (block.pairs() < kBlockPairs && bytes < kBlockBytes) {
    DT_ASSIGN_OR_RETURN(const bool more, reader.Next(pair));
    if (!more) break;
    const size_t i = 2 * block.numbers.size();
    if (block.lines.size() < i + 2) block.lines.resize(i + 2);
    block.lines[i] = pair.source;
    block.lines[i + 1] = pair.target;
    block.numbers.push_back(pair.number);
    block.problems.push_back(pair.problem);
    bytes += static_cast<int64_t>(pair.source.size() + pair.target.size());
  }
  return OkStatus();
}

// Keeps the pairs that pass all rules, in their order.
void CleanBlock(PairCleaner& cleaner, const std::string& path, CleaningReport& report,
                PairBlock& block) {
  const auto pairs = static_cast<size_t>(block.pairs());
  std::vector<DropReason> reasons(pairs);
  block.hashes.resize(pairs);
  ParallelFor(block.pairs(), 256, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const std::string& source = block.lines[2 * i];
      const std::string& target = block.lines[2 * i + 1];
      reasons[i] = block.problems[i] == LineProblem::kNone ? cleaner.CheckPair(source, target)
                                                           : DropReason::kInvalidText;
      block.hashes[i] = HashPair(source, target);
    }
  });
  size_t kept = 0;
  for (size_t i = 0; i < pairs; ++i) {
    if (reasons[i] == DropReason::kKept) reasons[i] = cleaner.CheckSeen(block.hashes[i]);
    if (reasons[i] != DropReason::kKept) {
      report.Add(reasons[i], path, block.numbers[i]);
      continue;
    }
    if (kept != i) {
      std::swap(block.lines[2 * kept], block.lines[2 * i]);
      std::swap(block.lines[2 * kept + 1], block.lines[2 * i + 1]);
      block.numbers[kept] = block.numbers[i];
      block.hashes[kept] = block.hashes[i];
    }
    ++kept;
  }
  block.numbers.resize(kept);
  block.hashes.resize(kept);
}

}  // namespace

StatusOr<ParallelTextReader> OpenParallel(const ParallelInput& input,
                                          const TextReaderOptions& options) {
  if (input.format != PairFormat::kTsv) {
    return ParallelTextReader::OpenLanguages(input.source, input.format, input.source_language,
                                             input.target_language, options);
  }
  if (input.target.empty()) return ParallelTextReader::OpenTsv(input.source, options);
  return ParallelTextReader::Open(input.source, input.target, options);
}

StatusOr<int64_t> ForEachCleanBlock(const ParallelInput& input, const TextReaderOptions& options,
                                    PairCleaner& cleaner, CleaningReport& report,
                                    const BlockConsumer& consume) {
  DT_ASSIGN_OR_RETURN(ParallelTextReader reader, OpenParallel(input, options));
  PairBlock current;
  PairBlock next;
  DT_RETURN_IF_ERROR(ReadBlock(reader, current));
  while (current.pairs() > 0) {
    std::future<Status> reading =
        std::async(std::launch::async, [&] { return ReadBlock(reader, next); });
    CleanBlock(cleaner, input.source, report, current);
    // The future's destructor waits for the reader, so returning early is safe.
    if (current.pairs() > 0) DT_RETURN_IF_ERROR(consume(current, input.source));
    DT_RETURN_IF_ERROR(reading.get());
    std::swap(current, next);
  }
  return reader.lines_with_more_columns() + reader.incomplete_entries();
}

}  // namespace dtrain::internal
