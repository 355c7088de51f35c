// utf8.cc - validates eight ASCII bytes at a time, everything else by table 3-7 of the standard.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/utf8.h"

#include <cstring>

namespace dtrain {
namespace {

// Length of the valid multi-byte sequence at p, 0 when there is none.
int SequenceLength(const unsigned char* p, const unsigned char* end) {
  const auto in_range = [&](int i, int low, int high) {
    return p + i < end && p[i] >= low && p[i] <= high;
  };
  const int lead = p[0];
  if (lead >= 0xC2 && lead <= 0xDF) return in_range(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const int low = lead == 0xE0 ? 0xA0 : 0x80;   // below: overlong
    const int high = lead == 0xED ? 0x9F : 0xBF;  // above: surrogates
    return in_range(1, low, high) && in_range(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const int low = lead == 0xF0 ? 0x90 : 0x80;   // below: overlong
    const int high = lead == 0xF4 ? 0x8F : 0xBF;  // above: past U+10FFFF
    return in_range(1, low, high) && in_range(2, 0x80, 0xBF) && in_range(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

}  // namespace

int64_t ValidUtf8Prefix(std::string_view text) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = begin + text.size();
  const unsigned char* p = begin;
  while (p < end) {
    while (end - p >= 8) {
      uint64_t word = 0;
      std::memcpy(&word, p, 8);
      if ((word & 0x8080808080808080u) != 0) break;
      p += 8;
    }
    if (p == end) break;
    if (*p < 0x80) {
      ++p;
      continue;
    }
    const int length = SequenceLength(p, end);
    if (length == 0) break;
    p += length;
  }
  return p - begin;
}

}  // namespace dtrain
