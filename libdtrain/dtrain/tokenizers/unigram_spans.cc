// unigram_spans.cc - ids with their places: pieces are found again in the normalised text.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/encoded_texts.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "dtrain/tokenizers/internal/byte_level.h"
#include "dtrain/tokenizers/internal/graphemes.h"
#include "dtrain/tokenizers/internal/unigram_tables.h"
#include "dtrain/tokenizers/unigram.h"

namespace dtrain {
namespace {

constexpr size_t kMostSkipped = 64;  // bytes

// A normalised text, and where each of its bytes comes from.
struct NormalizedText {
  std::string text;
  std::vector<TokenSpan> sources;
};

// Rules change characters of one cluster together. Those that look at more of the text only drop
// spaces, or keep them where they are inside of it: the next byte that is equal is the same.
NormalizedText Normalize(const internal::UnigramTables& tables, std::string_view text) {
  std::string apart;
  std::vector<TokenSpan> of_apart;
  std::string cluster;
  std::string buffer;
  for (size_t begin = 0; begin < text.size();) {
    const size_t size = internal::NextGrapheme(text.substr(begin));
    cluster = text.substr(begin, size);
    tables.text_rules.Apply(cluster, buffer);
    apart += cluster;
    of_apart.insert(of_apart.end(), cluster.size(),
                    {static_cast<int32_t>(begin), static_cast<int32_t>(begin + size)});
    begin += size;
  }
  NormalizedText result;
  result.text = text;
  tables.text_rules.Apply(result.text, buffer);
  TokenSpan last;
  size_t at = 0;
  for (const char c : result.text) {
    size_t next = at;
    while (next < apart.size() && apart[next] != c && apart[next] == ' ') ++next;
    if (next < apart.size() && apart[next] == c) at = next;
    if (at < apart.size() && (apart[at] == c || c != ' ')) {
      last = of_apart[at++];
    } else {  // a space that stands only where others are around it
      last = {last.end, last.end};
    }
    result.sources.push_back(last);
  }
  return result;
}

}  // namespace

void UnigramTokenizer::EncodeWithSpans(std::string_view text, std::vector<int32_t>& ids,
                                       std::vector<TokenSpan>& spans) const {
  DT_CHECK(IsValidUtf8(text)) << "places are those of valid UTF-8";
  DT_CHECK(!tables_->is_sentencepiece) << "places are known by the rules of a tokenizer.json";
  UnigramEncoder encoder(*this, /*cache_bytes=*/0, /*match_special_tokens=*/false);
  std::vector<std::string> pieces;
  const size_t before = ids.size();
  encoder.EncodePieces(text, ids, pieces);
  DT_CHECK_EQ(pieces.size(), ids.size() - before);
  const NormalizedText normal = Normalize(*tables_, text);
  // Begins and ends never decrease.
  TokenSpan last;
  const auto add = [&](TokenSpan span) {
    last = {std::max(span.begin, last.begin), std::max(span.end, last.end)};
    spans.push_back(last);
  };
  size_t at = 0;  // byte of the normalised text
  for (const std::string& written : pieces) {
    std::string_view piece = written;
    // Its spaces may be there, or have been added.
    while (piece.starts_with(internal::kMetaspace)) {
      piece.remove_prefix(internal::kMetaspace.size());
      if (at < normal.text.size() && normal.text[at] == ' ') ++at;
    }
    std::string plain;
    for (; !piece.empty(); piece.remove_prefix(1)) {
      const bool is_space = piece.starts_with(internal::kMetaspace);
      plain += is_space ? ' ' : piece.front();
      if (is_space) piece.remove_prefix(internal::kMetaspace.size() - 1);
    }
    // White space that is no part of words may be before it.
    const std::string_view rest = std::string_view(normal.text).substr(at);
    const size_t skipped = rest.substr(0, plain.size() + kMostSkipped).find(plain);
    if (plain.empty() || skipped == std::string_view::npos) {  // a space, or a byte of a character
      const int32_t place =
          at < normal.sources.size() ? normal.sources[at].begin : static_cast<int32_t>(text.size());
      add({place, place});
      continue;
    }
    const size_t begin = at + skipped;
    at = begin + plain.size();
    add({normal.sources[begin].begin, normal.sources[at - 1].end});
  }
}

}  // namespace dtrain
