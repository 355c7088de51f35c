// numbered_batch.h - batches whose rows have numbers, as those have that a trainer loads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_NUMBERED_BATCH_H_
#define DTRAIN_TESTS_TESTING_NUMBERED_BATCH_H_

#include <cstdint>
#include <vector>

#include "dtrain/device/sequences.h"

namespace dtrain::testing {

// Numbers the rows from `first` on.
inline void NumberFrom(int32_t first, Sequences& sequences) {
  std::vector<int32_t> numbers;
  for (int64_t s = 0; s < sequences.count(); ++s) numbers.push_back(first + sequences.begin(s));
  sequences.set_first_numbers(numbers);
}

// As the first part of its update.
template <typename Batch>
Batch Numbered(Batch batch) {
  if constexpr (requires { batch.source; }) {
    NumberFrom(0, batch.source);
    NumberFrom(0, batch.target);
  } else {
    NumberFrom(0, batch.sequences);
  }
  return batch;
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_NUMBERED_BATCH_H_
