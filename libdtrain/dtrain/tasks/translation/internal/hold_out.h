// hold_out.h - training pairs that are set aside to measure on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_INTERNAL_HOLD_OUT_H_
#define DTRAIN_TASKS_TRANSLATION_INTERNAL_HOLD_OUT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/tasks/translation/internal/corpus_pass.h"

namespace dtrain::internal {

// Keeps the pairs whose sources have the smallest hashes. This is a random sample that does not
// depend on the order of the text, and has no source twice.
class HoldOut {
 public:
  explicit HoldOut(int64_t capacity) : capacity_(capacity) {}

  // Adds pairs of a source with this tag, or "".
  void Add(const PairBlock& block, std::string_view tag);
  // Removes and returns the first `count` pairs, with their tags.
  std::vector<std::pair<std::string, std::string>> Take(int64_t count);

 private:
  int64_t capacity_;
  std::map<uint64_t, std::pair<std::string, std::string>> pairs_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TRANSLATION_INTERNAL_HOLD_OUT_H_
