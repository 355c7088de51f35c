// shuffle.h - a random order that is the same on every machine.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_SHUFFLE_H_
#define DTRAIN_DATA_INTERNAL_SHUFFLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "dtrain/base/random.h"

namespace dtrain::internal {

// The Fisher-Yates shuffle.
template <typename T>
void Shuffle(std::span<T> items, const RandomKey& key) {
  RandomStream random(key);
  for (size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[random.NextBelow(static_cast<uint32_t>(i))]);
  }
}

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_SHUFFLE_H_
