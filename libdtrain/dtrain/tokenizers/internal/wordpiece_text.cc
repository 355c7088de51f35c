// wordpiece_text.cc - splits ASCII by classes of bytes, 16 at a time.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/wordpiece_text.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dtrain/base/check.h"

namespace dtrain::internal {
namespace {

constexpr size_t kPadding = 16;
// A cache entry's ids are always copied as a whole, whatever their number.
constexpr size_t kSlack = WordPieceCache::kMaxIds;

constexpr uint64_t Bytes(uint64_t byte) { return byte * 0x0101010101010101u; }
constexpr uint64_t kHighBits = Bytes(0x80);

// Sets the high bit of each byte of `ascii` that is in [low, high]. The high bits of `ascii` must
// be clear.
constexpr uint64_t InRange(uint64_t ascii, uint64_t low, uint64_t high) {
  return (ascii + Bytes(0x80 - low)) & ~(ascii + Bytes(0x7F - high));
}

// Sets the high bit of each byte that is not an ASCII letter or digit, the bytes of
// ByteClass::kWord.
constexpr uint64_t NotWordBytes(uint64_t bytes) {
  const uint64_t ascii = bytes & ~kHighBits;
  const uint64_t letters = InRange(ascii | Bytes(0x20), 'a', 'z');
  const uint64_t digits = InRange(ascii, '0', '9');
  return (~(letters | digits) | bytes) & kHighBits;
}

struct Window {
  explicit Window(const char* p) {
    std::memcpy(&low, p, 8);
    std::memcpy(&high, p + 8, 8);
    static_assert(std::endian::native == std::endian::little, "the first byte is the lowest");
  }
  // Number of letters and digits at the start, up to 16.
  size_t WordSize() const {
    const uint64_t first = NotWordBytes(low);
    const uint64_t second = NotWordBytes(high);
    const int bits = first != 0 ? std::countr_zero(first) : 64 + std::countr_zero(second);
    return static_cast<size_t>(bits) / 8;
  }

  uint64_t low;
  uint64_t high;
};

}  // namespace

void WordPieceTextEncoder::Encode(std::string_view text, std::vector<int32_t>& ids) {
  if (*tables_.options.match_special_tokens) {
    for (size_t at = text.find('['); at != std::string_view::npos;) {
      const size_t token = tables_.SpecialTokenAt(text.substr(at));
      if (token == kNumSpecialTokens) {
        at = text.find('[', at + 1);
        continue;
      }
      EncodePlain(text.substr(0, at), ids);
      ids.push_back(tables_.special_ids[token]);
      text.remove_prefix(at + kSpecialTokens[token].size());
      at = text.find('[');
    }
  }
  EncodePlain(text, ids);
}

void WordPieceTextEncoder::EncodePlain(std::string_view text, std::vector<int32_t>& ids) {
  if (text.empty()) return;
  padded_.resize(text.size() + kPadding);
  std::memcpy(padded_.data(), text.data(), text.size());
  std::memset(padded_.data() + text.size(), ' ', kPadding);
  const size_t begin = ids.size();
  ids.resize(begin + text.size() + kSlack);
  int32_t* const first = ids.data() + begin;
  int32_t* out = first;
  const char* p = padded_.data();
  const char* const end = p + text.size();
  while (p < end) {
    if (tables_.ClassOf(*p) == ByteClass::kSpace) {
      ++p;
    } else {
      out = EncodeChunk(p, out);
    }
  }
  ids.resize(begin + static_cast<size_t>(out - first));
}

int32_t* WordPieceTextEncoder::EncodeChunk(const char*& p, int32_t* out) {
  const char* const chunk = p;
  int32_t* const out_before = out;
  while (true) {
    const char* const word = p;
    p += Window(p).WordSize();
    if (p - word == kPadding) {
      while (tables_.ClassOf(*p) == ByteClass::kWord) ++p;
    }
    const ByteClass next = tables_.ClassOf(*p);
    if (next == ByteClass::kOther) break;
    if (p > word) out = EncodeAsciiWord(word, static_cast<size_t>(p - word), out);
    if (next == ByteClass::kSpace) return out;
    *out++ = tables_.punctuation_ids[static_cast<uint8_t>(*p++)];
  }
  // A character that is not plain ASCII may change how the text before it is split, so the whole
  // chunk is encoded again.
  while (tables_.ClassOf(*p) != ByteClass::kSpace) ++p;
  return EncodeUnicodeChunk(chunk, static_cast<size_t>(p - chunk), out_before);
}

template <typename Body>
int32_t* WordPieceTextEncoder::Remember(const char* word, size_t size, int32_t* out,
                                        const Body& encode) {
  const bool is_short = size <= ShortWord::kMaxBytes;
  const Window window(word);
  const ShortWord key(window.low, window.high, std::min(size, ShortWord::kMaxBytes));
  if (is_short) {
    if (const WordPieceCache::Entry* const entry = cache_.Find(key)) {
      std::copy_n(entry->ids, WordPieceCache::kMaxIds, out);
      return out + entry->count;
    }
  }
  new_ids_.clear();
  encode();
  DT_CHECK_LE(new_ids_.size(), size) << "more ids than bytes";
  if (is_short && new_ids_.size() <= WordPieceCache::kMaxIds) cache_.Store(key, new_ids_);
  return std::copy(new_ids_.begin(), new_ids_.end(), out);
}

int32_t* WordPieceTextEncoder::EncodeAsciiWord(const char* word, size_t size, int32_t* out) {
  return Remember(word, size, out, [&] {
    lowered_.resize(size);
    std::transform(word, word + size, lowered_.begin(),
                   [&](char c) { return tables_.lower_bytes[static_cast<uint8_t>(c)]; });
    tables_.EncodeWord(lowered_, size, new_ids_);
  });
}

int32_t* WordPieceTextEncoder::EncodeUnicodeChunk(const char* chunk, size_t size, int32_t* out) {
  return Remember(chunk, size, out, [&] {
    SplitWords(tables_.characters, {chunk, size}, words_);
    for (const WordList::Word& word : words_.words) {
      tables_.EncodeWord(words_.word(word), word.num_chars, new_ids_);
    }
  });
}

}  // namespace dtrain::internal
