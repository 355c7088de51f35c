// evaluated_rows.h - the rows of a set that an evaluation takes, and their batches.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_EVALUATED_ROWS_H_
#define DTRAIN_TASKS_SHARED_EVALUATED_ROWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/data/batching.h"

namespace dtrain {

// At most `most` of so many rows, at equal distances: the first ones may be unlike the rest. All
// rows if `most` is 0.
std::vector<uint32_t> EveryKthRow(int64_t rows, int64_t most);

// The rows of the training data whose loss is measured at evaluations (Evaluation::sample): as many
// as an evaluation has, up to 500. It is noisier than the loss on the dev set then, but cheaper.
std::vector<uint32_t> TrainingSample(int64_t rows, int64_t evaluated);

struct RowBatch {
  std::vector<uint32_t> places = {};  // in the list of rows
  std::vector<uint32_t> rows = {};
};
// EvaluationBatches() of these rows, whose lengths are in `lengths`.
std::vector<RowBatch> BatchesOfRows(std::span<const uint32_t> rows, const SampleLengths& lengths,
                                    int64_t tokens_per_batch, const Communicator& comm,
                                    BudgetUnit unit = BudgetUnit::kBothSides);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_EVALUATED_ROWS_H_
