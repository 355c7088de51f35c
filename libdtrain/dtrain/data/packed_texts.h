// packed_texts.h - a packed batch of tokenised texts or pairs of texts: what a BERT encoder reads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_PACKED_TEXTS_H_
#define DTRAIN_DATA_PACKED_TEXTS_H_

#include <cstdint>
#include <vector>

#include "dtrain/device/sequences.h"

namespace dtrain {

// n rows, no padding. May hold none at all, in the tail of an epoch.
struct PackedTexts {
  std::vector<int32_t> token_ids;     // [tokens]: [CLS] a [SEP], or [CLS] a [SEP] b [SEP]
  std::vector<int32_t> type_ids;      // [tokens]: 0 up to the first [SEP] and with it, then 1
  std::vector<int32_t> position_ids;  // [tokens]: from 0 in each sequence
  Sequences sequences;                // n

  // The ids of one more row, those after the first `type0_size` of type 1. Sequences are the
  // caller's, when all rows are there.
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
