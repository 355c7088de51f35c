// rows.cc - cuts texts that are too long, and joins the parts of a row.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/rows.h"

#include <algorithm>
#include <cstddef>

#include "dtrain/base/check.h"
#include "dtrain/tokenizers/internal/row_sizes.h"

namespace dtrain::internal {

void MakeRow(std::span<const RowPart> parts, std::array<std::vector<int32_t>, 2> texts,
             int max_length, std::vector<int32_t>& ids, std::vector<int32_t>& types) {
  if (max_length > 0) {
    const auto specials = static_cast<size_t>(
        std::count_if(parts.begin(), parts.end(), [](const auto& p) { return p.special_id >= 0; }));
    DT_CHECK(static_cast<size_t>(max_length) > specials)
        << "max_length is " << max_length << "; a row has " << specials << " special tokens";
    const RowSizes sizes =
        TruncatedSizes({texts[0].size(), texts[1].size()},
                       static_cast<size_t>(max_length) - specials, /*hugging_face=*/true);
    texts[0].resize(sizes.first);
    texts[1].resize(sizes.second);
  }
  ids.clear();
  types.clear();
  for (const RowPart& part : parts) {
    if (part.special_id >= 0) {
      ids.push_back(part.special_id);
    } else {
      const std::vector<int32_t>& text = texts[static_cast<size_t>(part.text)];
      ids.insert(ids.end(), text.begin(), text.end());
    }
    types.resize(ids.size(), part.type);
  }
}

}  // namespace dtrain::internal
