// packed_texts.h - a packed batch of tokenised texts or pairs of texts, the input of BERT.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_PACKED_TEXTS_H_
#define DTRAIN_DATA_PACKED_TEXTS_H_

#include <cstdint>
#include <vector>

#include "dtrain/device/sequences.h"

namespace dtrain {

// n rows without padding. At the end of an epoch it may be empty.
struct PackedTexts {
  std::vector<int32_t> token_ids;     // [tokens]: [CLS] a [SEP], or [CLS] a [SEP] b [SEP]
  std::vector<int32_t> type_ids;      // [tokens]: 0 up to and including the first [SEP], then 1
  std::vector<int32_t> position_ids;  // [tokens]: from 0 in each sequence
  Sequences sequences;                // n sequences

  // Appends one row's ids. The first `type0_size` have type 0, the rest type 1. The caller sets
  // `sequences` after appending all rows.
  template <typename Ids>
  void AppendTokens(const Ids& ids, int64_t type0_size) {
    for (int32_t i = 0; i < static_cast<int32_t>(ids.size()); ++i) {
      token_ids.push_back(ids[i]);
      type_ids.push_back(i < type0_size ? 0 : 1);
      position_ids.push_back(i);
    }
  }
};

}  // namespace dtrain

#endif  // DTRAIN_DATA_PACKED_TEXTS_H_
