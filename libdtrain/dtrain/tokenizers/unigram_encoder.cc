// unigram_encoder.cc - normalises texts, cuts them into pieces and remembers the words.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "dtrain/tokenizers/internal/byte_level.h"
#include "dtrain/tokenizers/internal/rows.h"
#include "dtrain/tokenizers/internal/unigram_tables.h"
#include "dtrain/tokenizers/internal/word_cache.h"
#include "dtrain/tokenizers/unigram.h"

namespace dtrain {
namespace internal {

struct UnigramCaches {
  explicit UnigramCaches(size_t cache_bytes) : words(cache_bytes) {}
  WordCache words;
  UnigramScratch scratch;
  std::string valid;
  std::string normalized;
  std::string spaced;
  std::string buffer;
  std::vector<int32_t> ids;  // of one word
};

namespace {

constexpr double kNoGap = std::numeric_limits<double>::infinity();

// What a text becomes. Pieces are wanted only where `pieces` is not null.
struct UnigramOutput {
  std::vector<int32_t>* ids;
  std::vector<std::string>* pieces;

  void Add(int32_t id, std::string_view piece) const {
    ids->push_back(id);
    if (pieces != nullptr) pieces->emplace_back(piece);
  }
};

// Writes the steps of a way as ids. Unknown characters that follow each other become one.
class WayWriter {
 public:
  WayWriter(const UnigramTables& tables, UnigramOutput output) : tables_(tables), output_(output) {}

  // `text` is what the step stands for, with a space for each U+2581.
  void Add(int32_t id, std::string_view text) {
    if (id != tables_.model.unk_id()) {
      if (!unknown_.empty()) Finish();
      output_.Add(id, tables_.pieces[static_cast<size_t>(id)]);
      return;
    }
    for (const char c : text) {
      const bool is_space = c == ' ' && IsEscaped();
      if (is_space) unknown_.append(kMetaspace);
      if (!is_space) unknown_ += c;
    }
    // SentencePiece fuses no characters that it falls back to the bytes of.
    if (tables_.is_sentencepiece && tables_.byte_fallback) Finish();
  }

  // Known ids of a word without unknown characters.
  void AddKnown(std::span<const int32_t> ids) {
    if (!unknown_.empty()) Finish();
    output_.ids->insert(output_.ids->end(), ids.begin(), ids.end());
  }

  void Finish() {
    if (unknown_.empty()) return;
    const auto found =
        tables_.is_sentencepiece ? tables_.id_of.end() : tables_.id_of.find(unknown_);
    if (found != tables_.id_of.end()) {
      output_.Add(found->second, unknown_);
    } else if (HasBytes()) {
      for (const char c : unknown_) {
        const int32_t id = tables_.byte_ids[static_cast<uint8_t>(c)];
        output_.Add(id, tables_.pieces[static_cast<size_t>(id)]);
      }
    } else {
      output_.Add(tables_.model.unk_id(), unknown_);
    }
    unknown_.clear();
  }

 private:
  bool IsEscaped() const {
    return !tables_.is_sentencepiece || tables_.sentence_rules.options().escape_whitespaces;
  }
  bool HasBytes() const {
    if (!tables_.byte_fallback) return false;
    for (const char c : unknown_) {
      if (tables_.byte_ids[static_cast<uint8_t>(c)] < 0) return false;
    }
    return true;
  }

  const UnigramTables& tables_;
  UnigramOutput output_;
  std::string unknown_;
};

// Encodes one text.
class UnigramRun {
 public:
  UnigramRun(const UnigramTables& tables, bool match_special_tokens, UnigramCaches& caches,
             UnigramOutput output)
      : tables_(tables),
        added_(tables.added_tokens.matchers(match_special_tokens)),
        caches_(caches),
        output_(output) {}

  void EncodeSentence(std::string_view text) {
    tables_.sentence_rules.Apply(text, caches_.spaced);
    EncodeLine(caches_.spaced);
  }

  void EncodeText(std::string_view text) {
    if (!IsValidUtf8(text)) {
      caches_.valid = MendInvalidUtf8(text, InvalidText::kReplace);
      text = caches_.valid;
    }
    const auto take = [&](int32_t id) { output_.Add(id, tables_.pieces[static_cast<size_t>(id)]); };
    const char* const begin = text.data();
    added_.raw.Split(
        text,
        [&](std::string_view part) {
          bool is_first = part.data() == begin;
          caches_.normalized = part;
          tables_.text_rules.Apply(caches_.normalized, caches_.buffer);
          added_.normalized.Split(
              caches_.normalized,
              [&](std::string_view words) {
                EncodePart(words, is_first);
                is_first = false;
              },
              [&](int32_t id) {
                take(id);
                is_first = false;
              });
        },
        take);
  }

 private:
  void EncodePart(std::string_view part, bool is_first) {
    if (!tables_.drops_white_space) return EncodeMetaspace(part, is_first);
    size_t begin = 0;
    size_t size = 0;
    const auto take = [&](size_t end) {
      if (end > begin) EncodeMetaspace(part.substr(begin, end - begin), is_first);
    };
    for (size_t at = 0; at < part.size(); at += size) {
      if (ClassOf(DecodeUtf8(part.substr(at), size)) != CharacterClass::kSpace) continue;
      take(at);
      begin = at + size;
    }
    take(part.size());
  }

  // `part` is not empty.
  void EncodeMetaspace(std::string_view part, bool is_first) {
    using Prefix = UnigramTables::Prefix;
    std::string& spaced = caches_.spaced;
    spaced.clear();
    const bool is_prefixed =
        tables_.prefix == Prefix::kAlways || (tables_.prefix == Prefix::kFirst && is_first);
    if (is_prefixed && part.front() != ' ' && !part.starts_with(kMetaspace)) spaced += ' ';
    for (size_t found = part.find(kMetaspace); found != std::string_view::npos;
         found = part.find(kMetaspace)) {
      spaced.append(part.substr(0, found)) += ' ';
      part.remove_prefix(found + kMetaspace.size());
    }
    spaced.append(part);
    if (!tables_.splits_spaces) return EncodeLine(spaced);
    ForEachWord(spaced, [&](std::string_view word) { EncodeSeparateWord(word); });
  }

  // Each space begins a word.
  template <typename Take>
  static void ForEachWord(std::string_view spaced, const Take& take) {
    while (!spaced.empty()) {
      const std::string_view word = spaced.substr(0, spaced.find(' ', 1));
      take(word);
      spaced.remove_prefix(word.size());
    }
  }

  // Writes the best way through `text`, which `sum` follows. Returns whether a character is
  // unknown.
  bool WriteWay(std::string_view text, double& sum, double& gap, WayWriter& writer) {
    bool has_unknown = false;
    while (!text.empty()) {
      const size_t size = tables_.model.NextSegment(text, sum, gap, caches_.scratch);
      size_t at = 0;
      for (const UnigramStep& step : caches_.scratch.steps) {
        writer.Add(step.id, text.substr(at, step.size));
        has_unknown |= step.id == tables_.model.unk_id();
        at += step.size;
      }
      text.remove_prefix(size);
    }
    return has_unknown;
  }

  // Words of `tokenizers` do not depend on what is before them.
  void EncodeSeparateWord(std::string_view word) {
    double sum = 0.0;
    double gap = kNoGap;
    if (output_.pieces != nullptr || word.size() > WordCache::kMaxWordBytes) {
      WayWriter writer(tables_, output_);
      WriteWay(word, sum, gap, writer);
      return writer.Finish();
    }
    uint64_t& packed = caches_.words.Lookup(word);
    if (packed == 0) {
      caches_.ids.clear();
      WayWriter writer(tables_, {&caches_.ids, nullptr});
      WriteWay(word, sum, gap, writer);
      writer.Finish();
      caches_.words.Store(caches_.ids, packed);
    }
    const std::span<const int32_t> ids = caches_.words.Ids(packed);
    output_.ids->insert(output_.ids->end(), ids.begin(), ids.end());
  }

  // A line is one way, whose sum is rounded after each piece. So the way through a word may depend
  // on the words before it, but only where two ways through it are nearly equal.
  void EncodeLine(std::string_view spaced) {
    WayWriter writer(tables_, output_);
    double sum = 0.0;
    double gap = kNoGap;
    if (tables_.model.has_inner_spaces() || output_.pieces != nullptr) {
      WriteWay(spaced, sum, gap, writer);
    } else {
      ForEachWord(spaced, [&](std::string_view word) { EncodeWordInLine(word, sum, writer); });
    }
    writer.Finish();
  }

  void EncodeWordInLine(std::string_view word, double& sum, WayWriter& writer) {
    double gap = kNoGap;
    if (word.size() > WordCache::kMaxWordBytes) {
      WriteWay(word, sum, gap, writer);
      return;
    }
    uint64_t& packed = caches_.words.Lookup(word);
    if (packed == 0) {
      // Stored are the gap and the ids.
      caches_.ids.assign(1, 0);
      double alone = 0.0;
      WayWriter word_writer(tables_, {&caches_.ids, nullptr});
      const bool has_unknown = WriteWay(word, alone, gap, word_writer);
      word_writer.Finish();
      // With an unknown character ids depend on what is around the word.
      const float stored = has_unknown ? -1.0f : static_cast<float>(gap);
      caches_.ids[0] = std::bit_cast<int32_t>(stored);
      caches_.words.Store(caches_.ids, packed);
    }
    const std::span<const int32_t> stored = caches_.words.Ids(packed);
    if (std::bit_cast<float>(stored[0]) <= 2 * tables_.model.ErrorBound(sum, word.size())) {
      WriteWay(word, sum, gap, writer);
      return;
    }
    const std::span<const int32_t> ids = stored.subspan(1);
    for (const int32_t id : ids) sum = tables_.model.After(sum, id);
    writer.AddKnown(ids);
  }

  const UnigramTables& tables_;
  const AddedTokens::Matchers& added_;
  UnigramCaches& caches_;
  UnigramOutput output_;
};

}  // namespace
}  // namespace internal

UnigramEncoder::UnigramEncoder(UnigramTokenizer tokenizer, size_t cache_bytes,
                               bool match_special_tokens)
    : tokenizer_(std::move(tokenizer)),
      match_special_tokens_(match_special_tokens),
      caches_(std::make_unique<internal::UnigramCaches>(cache_bytes)) {}
UnigramEncoder::UnigramEncoder(UnigramEncoder&&) noexcept = default;
UnigramEncoder& UnigramEncoder::operator=(UnigramEncoder&&) noexcept = default;
UnigramEncoder::~UnigramEncoder() = default;

void UnigramEncoder::EncodeInto(std::string_view text, std::vector<int32_t>& ids,
                                std::vector<std::string>* pieces) {
  DT_CHECK_LT(text.size(), size_t{INT32_MAX}) << "a text must be shorter than 2 GiB";
  internal::UnigramRun run(*tokenizer_.tables_, match_special_tokens_, *caches_, {&ids, pieces});
  if (tokenizer_.tables_->is_sentencepiece) {
    run.EncodeSentence(text);
  } else {
    run.EncodeText(text);
  }
}

void UnigramEncoder::Encode(std::string_view text, std::vector<int32_t>& ids) {
  EncodeInto(text, ids, nullptr);
}

void UnigramEncoder::EncodePieces(std::string_view text, std::vector<std::string>& pieces) {
  std::vector<int32_t> ids;
  EncodePieces(text, ids, pieces);
}

void UnigramEncoder::EncodePieces(std::string_view text, std::vector<int32_t>& ids,
                                  std::vector<std::string>& pieces) {
  EncodeInto(text, ids, &pieces);
}

void UnigramEncoder::EncodeRow(std::string_view first, std::optional<std::string_view> second,
                               int max_length, std::vector<int32_t>& ids,
                               std::vector<int32_t>& types) {
  const internal::UnigramTables& tables = *tokenizer_.tables_;
  std::array<std::vector<int32_t>, 2> texts;
  Encode(first, texts[0]);
  if (second) Encode(*second, texts[1]);
  internal::MakeRow(second ? tables.pair : tables.single, std::move(texts), max_length, ids, types);
}

}  // namespace dtrain
