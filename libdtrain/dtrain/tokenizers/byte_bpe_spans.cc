// byte_bpe_spans.cc - ids with their places: each byte remembers which character it was made from.
// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/byte_bpe.h"
#include "dtrain/tokenizers/encoded_texts.h"
#include "dtrain/tokenizers/internal/byte_bpe_tables.h"
#include "dtrain/tokenizers/internal/byte_level.h"
#include "dtrain/tokenizers/internal/composition.h"

namespace dtrain {
namespace {

// A part of a text as it is encoded, and where each of its bytes comes from.
struct SourcedText {
  std::string text;
  std::vector<TokenSpan> sources;

  void Append(std::string_view part, int32_t offset) {
    size_t size = 0;
    for (size_t i = 0; i < part.size(); i += size) {
      DecodeUtf8(part.substr(i), size);
      const auto begin = offset + static_cast<int32_t>(i);
      sources.insert(sources.end(), size, {begin, begin + static_cast<int32_t>(size)});
    }
    text.append(part);
  }
};

// The place of a piece made of these bytes. The space in front of a word does not count.
TokenSpan SpanOf(std::string_view bytes, std::span<const TokenSpan> sources) {
  size_t first = 0;
  size_t size = 0;
  // A piece may begin in the middle of a character, where there is no space.
  while (first < bytes.size() && (static_cast<uint8_t>(bytes[first]) & 0xC0u) != 0x80 &&
         internal::ClassOf(DecodeUtf8(bytes.substr(first), size)) ==
             internal::CharacterClass::kSpace) {
    first += size;
  }
  const int32_t end = sources[bytes.size() - 1].end;
  if (first >= bytes.size()) return {end, end};  // nothing but white space
  return {sources[first].begin, end};
}

class SpanEncoder {
 public:
  SpanEncoder(const internal::ByteBpeTables& tables, std::string_view text,
              std::vector<int32_t>& ids, std::vector<TokenSpan>& spans)
      : tables_(tables),
        matchers_(tables.added_tokens.matchers(/*with_special=*/false)),
        all_(text),
        ids_(ids),
        spans_(spans) {}

  void Run() {
    matchers_.raw.SplitWithPlaces(
        all_, [&](std::string_view part) { EncodePart(part, OffsetOf(part)); },
        [&](int32_t id, std::string_view place) {
          const int32_t begin = OffsetOf(place);
          Add(id, {begin, begin + static_cast<int32_t>(place.size())});
        });
  }

 private:
  int32_t OffsetOf(std::string_view part) const {
    return static_cast<int32_t>(part.data() - all_.data());
  }

  void Add(int32_t id, TokenSpan span) {
    ids_.push_back(id);
    spans_.push_back(span);
  }

  void EncodePart(std::string_view part, int32_t offset) {
    SourcedText normal;
    if (tables_.composes && internal::MayCompose(part)) {
      internal::ComposeWithSources(part, offset, normal.text, normal.sources);
    } else {
      normal.Append(part, offset);
    }
    const std::string_view text = normal.text;
    const auto sources_of = [&](std::string_view words) {
      return std::span<const TokenSpan>(normal.sources)
          .subspan(static_cast<size_t>(words.data() - text.data()), words.size());
    };
    matchers_.normalized.SplitWithPlaces(
        text, [&](std::string_view words) { EncodeWords(words, sources_of(words)); },
        [&](int32_t id, std::string_view place) {
          const std::span<const TokenSpan> sources = sources_of(place);
          Add(id, {sources.front().begin, sources.back().end});
        });
  }

  void EncodeWords(std::string_view words, std::span<const TokenSpan> sources) {
    std::string spaced;
    std::vector<TokenSpan> spaced_sources;
    if (tables_.adds_space && words.front() != ' ') {
      spaced.assign(" ").append(words);
      spaced_sources.push_back({sources[0].begin, sources[0].begin});
      spaced_sources.insert(spaced_sources.end(), sources.begin(), sources.end());
      words = spaced;
      sources = spaced_sources;
    }
    while (!words.empty()) {
      const size_t size = tables_.splits_words ? internal::NextWord(words) : words.size();
      EncodeWord(words.substr(0, size), sources.first(size));
      words.remove_prefix(size);
      sources = sources.subspan(size);
    }
  }

  void EncodeWord(std::string_view word, std::span<const TokenSpan> sources) {
    internal::MergeWord(tables_, word, merge_);
    const auto& symbols = merge_.symbols;
    for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
      const auto& symbol = symbols[static_cast<size_t>(i)];
      if (symbol.symbol < 0) continue;
      Add(symbol.symbol, SpanOf(word.substr(symbol.begin, symbol.size),
                                sources.subspan(symbol.begin, symbol.size)));
    }
  }

  const internal::ByteBpeTables& tables_;
  const internal::AddedTokens::Matchers& matchers_;
  std::string_view all_;
  std::vector<int32_t>& ids_;
  std::vector<TokenSpan>& spans_;
  internal::MergeScratch merge_;
};

}  // namespace

void ByteBpeTokenizer::EncodeWithSpans(std::string_view text, std::vector<int32_t>& ids,
                                       std::vector<TokenSpan>& spans) const {
  DT_CHECK_LT(text.size(), size_t{INT32_MAX}) << "a text must be shorter than 2 GiB";
  DT_CHECK(IsValidUtf8(text)) << "places are those of valid UTF-8";
  SpanEncoder(*tables_, text, ids, spans).Run();
}

}  // namespace dtrain
