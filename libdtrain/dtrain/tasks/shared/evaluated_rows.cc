// evaluated_rows.cc - rows at equal distances.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/evaluated_rows.h"

#include <algorithm>
#include <utility>

namespace dtrain {
namespace {

constexpr int64_t kMostSampled = 500;

}  // namespace

std::vector<uint32_t> EveryKthRow(int64_t rows, int64_t most) {
  const int64_t count = most > 0 ? std::min(most, rows) : rows;
  std::vector<uint32_t> taken;
  taken.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) taken.push_back(static_cast<uint32_t>(i * rows / count));
  return taken;
}

std::vector<uint32_t> TrainingSample(int64_t rows, int64_t evaluated) {
  return EveryKthRow(rows, std::clamp<int64_t>(evaluated, 1, kMostSampled));
}

std::vector<RowBatch> BatchesOfRows(std::span<const uint32_t> rows, const SampleLengths& lengths,
                                    int64_t tokens_per_batch, const Communicator& comm,
                                    BudgetUnit unit) {
  std::vector<int32_t> sources;
  std::vector<int32_t> targets;
  for (const uint32_t row : rows) {
    sources.push_back(lengths.source[row]);
    if (!lengths.target.empty()) targets.push_back(lengths.target[row]);
  }
  std::vector<RowBatch> batches;
  for (std::vector<uint32_t>& places :
       EvaluationBatches({.source = sources, .target = targets, .added = lengths.added},
                         tokens_per_batch, comm.rank(), comm.size(), unit)) {
    RowBatch& batch = batches.emplace_back();
    for (const uint32_t place : places) batch.rows.push_back(rows[place]);
    batch.places = std::move(places);
  }
  return batches;
}

}  // namespace dtrain
