// bpe_text.cc - splits a line into words like SentencePiece with normalisation "identity".
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/bpe_text.h"

#include <cstring>

#include "dtrain/base/utf8.h"

namespace dtrain::internal {

namespace {

// Calls accept(code point) for each character. Returns false at the first one that is invalid or
// not accepted.
template <typename Accept>
bool AllCodePoints(std::string_view text, const Accept& accept) {
  size_t i = 0;
  while (i < text.size()) {
    // Eight ASCII bytes at a time, because most text is mostly ASCII.
    if (i + 8 <= text.size()) {
      uint64_t chunk;
      std::memcpy(&chunk, text.data() + i, 8);
      if ((chunk & 0x8080808080808080u) == 0) {
        i += 8;
        continue;
      }
    }
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    size_t size;
    const uint32_t c = DecodeUtf8(text.substr(i), size);
    if (c == kInvalidCodePoint || !accept(c)) return false;
    i += size;
  }
  return true;
}

}  // namespace

bool IsPlainLine(std::string_view line) {
  return AllCodePoints(line, [](uint32_t c) { return c != kMetaspaceCodePoint; });
}

bool IsBlankLine(std::string_view line) {
  while (!line.empty()) {
    size_t size = 0;
    const uint32_t c = DecodeUtf8(line, size);
    if (c != kMetaspaceCodePoint && !IsInvisible(c)) return false;
    line.remove_prefix(size);
  }
  return true;
}

std::string NormalizeLine(std::string_view line) {
  const size_t first = line.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  line.remove_prefix(first);
  std::string out(kMetaspace);
  bool after_space = true;
  while (!line.empty()) {
    size_t size;
    const bool valid = DecodeUtf8(line, size) != kInvalidCodePoint;
    const bool is_space = line[0] == ' ';
    if (is_space) {
      if (!after_space) out += kMetaspace;
    } else {
      out += valid ? line.substr(0, size) : kReplacement;
    }
    after_space = is_space;
    line.remove_prefix(size);
  }
  while (out.ends_with(kMetaspace)) out.resize(out.size() - kMetaspace.size());
  return out;
}

}  // namespace dtrain::internal
