// wordpiece_spans.cc - ids with their places: each character remembers what it was made from.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <span>

#include "dtrain/base/check.h"
#include "dtrain/tokenizers/internal/wordpiece_tables.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain {
namespace {

size_t CountCodePoints(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0u) != 0x80u; }));
}

}  // namespace

void WordPieceTokenizer::EncodeWithSpans(std::string_view text, std::vector<int32_t>& ids,
                                         std::vector<TokenSpan>& spans) const {
  DT_CHECK_LE(text.size(), static_cast<size_t>(std::numeric_limits<int32_t>::max()));
  internal::WordList list;
  internal::SplitWordsWithSources(tables_->characters, text, list);
  std::span<const TokenSpan> sources = list.sources;  // of the words not processed yet
  for (const internal::WordList::Word& word : list.words) {
    const size_t first_id = ids.size();
    tables_->EncodeWord(list.word(word), word.num_chars, ids);
    // The last piece, which may be [UNK], covers the remaining characters.
    size_t begin = 0;
    for (size_t i = first_id; i < ids.size(); ++i) {
      size_t end = word.num_chars;
      if (i + 1 < ids.size()) {
        const size_t prefix = i == first_id ? 0 : 2;  // the "##" of a piece that continues a word
        end = begin + CountCodePoints(Piece(ids[i]).substr(prefix));
      }
      spans.push_back({sources[begin].begin, sources[end - 1].end});
      begin = end;
    }
    sources = sources.subspan(word.num_chars);
  }
}

}  // namespace dtrain
