// text_tokenizer.cc - finds the kind of a tokenizer, and hands each call to it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/text_tokenizer.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/data/internal/hash.h"
#include "dtrain/tokenizers/byte_bpe.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "dtrain/tokenizers/internal/merges_files.h"
#include "dtrain/tokenizers/internal/row_batches.h"
#include "dtrain/tokenizers/internal/tokenizer_file.h"
#include "dtrain/tokenizers/unigram.h"
#include "nlohmann/json.hpp"

namespace dtrain {
namespace internal {

struct TokenizerKind {
  std::variant<WordPieceTokenizer, ByteBpeTokenizer, UnigramTokenizer> of;
};
struct TextEncoders {
  std::variant<std::vector<WordPieceEncoder>, std::vector<ByteBpeEncoder>,
               std::vector<UnigramEncoder>>
      of;
};

}  // namespace internal

namespace {

using internal::RowPart;

constexpr size_t kCacheBytes = size_t{4} << 20;  // of an encoder

// How vocabularies of the families write a space in front of a word.
constexpr std::string_view kSpace = "\xC4\xA0";  // U+0120, the space as a byte that shows

std::vector<int32_t> SpecialsBetween(std::span<const RowPart> row, size_t begin, size_t end) {
  std::vector<int32_t> ids;
  for (size_t i = begin; i < end; ++i) ids.push_back(row[i].special_id);
  return ids;
}

// The place of a text in a row; the row's size if it is not there.
size_t PlaceOf(int text, std::span<const RowPart> row) {
  const auto found = std::ranges::find_if(
      row, [&](const RowPart& part) { return part.special_id < 0 && part.text == text; });
  return static_cast<size_t>(found - row.begin());
}

// Nothing where the rows are not as RowForm says.
std::optional<RowForm> FormOf(std::span<const RowPart> single, std::span<const RowPart> pair) {
  const size_t alone = PlaceOf(0, single);
  const size_t first = PlaceOf(0, pair);
  const size_t second = PlaceOf(1, pair);
  const auto texts = [](std::span<const RowPart> row) {
    return std::ranges::count_if(row, [](const RowPart& part) { return part.special_id < 0; });
  };
  if (texts(single) != 1 || texts(pair) != 2 || alone == single.size() || first >= second ||
      second == pair.size()) {
    return std::nullopt;
  }
  RowForm form{.before = SpecialsBetween(single, 0, alone),
               .between = SpecialsBetween(pair, first + 1, second),
               .after = SpecialsBetween(single, alone + 1, single.size()),
               .second_has_type1 = pair[second].type == 1};
  const bool has_types = std::ranges::all_of(pair, [&](const RowPart& part) {
    const bool is_second = &part >= &pair[second];
    return part.type == (is_second && form.second_has_type1 ? 1 : 0);
  });
  const bool is_alike = form.before == SpecialsBetween(pair, 0, first) &&
                        form.after == SpecialsBetween(pair, second + 1, pair.size());
  if (!has_types || !is_alike || form.before.empty() || form.after.empty()) return std::nullopt;
  return form;
}

constexpr std::string_view kWordPiece = "WordPiece";

// The type of a tokenizer.json's model. A file without one is left to WordPiece, which refuses it.
std::string ModelTypeOf(const std::string& text) {
  const auto root = internal::ParseJson<nlohmann::json>(text);
  const auto model = root.is_object() ? root.value("model", nlohmann::json()) : nlohmann::json();
  const auto type = model.is_object() ? model.value("type", nlohmann::json()) : nlohmann::json();
  if (type.is_string()) return type.get<std::string>();
  return model.is_object() && model.contains("merges") ? "BPE" : std::string(kWordPiece);
}

StatusOr<std::string> ReadTokenizerText(const std::string& path) {
  StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return DataError(text.status().message());
  return text;
}

template <typename Encoder>
EncodedTexts EncodeWith(std::vector<Encoder>& encoders, std::span<const std::string_view> first,
                        std::span<const std::string_view> second, const TextRowOptions& options) {
  return internal::EncodeRows(
      encoders, first, second,
      [&](Encoder& encoder, std::string_view text, std::optional<std::string_view> other,
          std::vector<int32_t>& ids) -> int64_t {
        if constexpr (std::is_same_v<Encoder, WordPieceEncoder>) {
          return encoder.EncodeRow(text, other, options, ids);
        } else {
          std::vector<int32_t> row;
          std::vector<int32_t> types;
          encoder.EncodeRow(text, other, options.max_length, row, types);
          ids.insert(ids.end(), row.begin(), row.end());
          return std::ranges::count(types, 0);
        }
      });
}

}  // namespace

StatusOr<bool> HoldsWordPiece(const std::string& path) {
  if (!path.ends_with(".json")) return true;
  if (internal::IsMergesVocabulary(path)) return false;
  DT_ASSIGN_OR_RETURN(const std::string text, ReadTokenizerText(path));
  return ModelTypeOf(text) == kWordPiece;
}

StatusOr<TextTokenizer> TextTokenizer::Load(const std::string& path,
                                            const WordPieceOptions& options) {
  std::string text;
  std::string type = std::string(kWordPiece);
  const bool match_special_tokens = options.match_special_tokens.value_or(true);
  if (internal::IsMergesVocabulary(path)) {
    DT_ASSIGN_OR_RETURN(const ByteBpeTokenizer tokenizer, ByteBpeTokenizer::Load(path));
    return Make(tokenizer, path, match_special_tokens);
  }
  if (path.ends_with(".json")) {
    DT_ASSIGN_OR_RETURN(text, ReadTokenizerText(path));
    type = ModelTypeOf(text);
  }
  if (type == kWordPiece) {
    DT_ASSIGN_OR_RETURN(WordPieceTokenizer tokenizer, WordPieceTokenizer::Load(path, options));
    return TextTokenizer(std::move(tokenizer));
  }
  if (type == "Unigram") {
    DT_ASSIGN_OR_RETURN(const UnigramTokenizer tokenizer, UnigramTokenizer::FromJson(text, path));
    return Make(tokenizer, path, match_special_tokens);
  }
  if (type != "BPE") {
    return DataError(absl::StrFormat(
        "%s: its model is of type %s; dtrain knows WordPiece, BPE of bytes, and Unigram", path,
        Printable(type)));
  }
  DT_ASSIGN_OR_RETURN(const ByteBpeTokenizer tokenizer, ByteBpeTokenizer::FromJson(text, path));
  return Make(tokenizer, path, match_special_tokens);
}

TextTokenizer::TextTokenizer(WordPieceTokenizer tokenizer)
    : row_(std::make_shared<const RowForm>(RowForm{.before = {tokenizer.cls_id()},
                                                   .between = {tokenizer.sep_id()},
                                                   .after = {tokenizer.sep_id()}})),
      unk_id_(tokenizer.unk_id()),
      mask_id_(tokenizer.mask_id()),
      pad_id_(tokenizer.pad_id()),
      matches_special_tokens_(*tokenizer.options().match_special_tokens) {
  kind_ = std::make_shared<const internal::TokenizerKind>(
      internal::TokenizerKind{std::move(tokenizer)});
}

const WordPieceTokenizer* TextTokenizer::word_piece() const {
  return std::get_if<WordPieceTokenizer>(&kind_->of);
}

template <typename Tokenizer>
StatusOr<TextTokenizer> TextTokenizer::Make(const Tokenizer& tokenizer, const std::string& name,
                                            bool match_special_tokens) {
  const std::optional<RowForm> form = FormOf(tokenizer.row(false), tokenizer.row(true));
  if (!form) {
    return DataError(
        absl::StrFormat("%s: post_processor: a row of an encoder has special tokens before and "
                        "after its texts, the same for one text and for two",
                        name));
  }
  // The file does not say what its special tokens are for; the families call them so.
  const auto id_of = [&](const char* piece, const char* other) {
    const int32_t id = tokenizer.IdOf(piece);
    return id >= 0 ? id : tokenizer.IdOf(other);
  };
  const int32_t mask = id_of("<mask>", "[MASK]");
  const int32_t pad = id_of("<pad>", "[PAD]");
  const int32_t unknown = tokenizer.unk_id() >= 0 ? tokenizer.unk_id() : id_of("<unk>", "[UNK]");
  TextTokenizer made;
  made.kind_ = std::make_shared<const internal::TokenizerKind>(internal::TokenizerKind{tokenizer});
  made.row_ = std::make_shared<const RowForm>(*form);
  made.mask_id_ = mask;
  made.pad_id_ = pad;
  made.unk_id_ = unknown;
  made.matches_special_tokens_ = match_special_tokens;
  return made;
}

std::string_view TextTokenizer::kind() const {
  constexpr std::string_view kNames[] = {"WordPiece", "byte-level BPE", "Unigram"};
  return kNames[kind_->of.index()];
}

void TextTokenizer::EncodeWithSpans(std::string_view text, std::vector<int32_t>& ids,
                                    std::vector<TokenSpan>& spans) const {
  std::visit([&](const auto& tokenizer) { tokenizer.EncodeWithSpans(text, ids, spans); },
             kind_->of);
}

void TextTokenizer::EncodeWord(std::string_view word, std::vector<int32_t>& ids) const {
  std::vector<TokenSpan> unused;
  if (word_piece() != nullptr) return EncodeWithSpans(word, ids, unused);
  // The vocabulary writes most words with the space in front of them.
  EncodeWithSpans(" " + std::string(word), ids, unused);
}

std::string TextTokenizer::Decode(std::span<const int32_t> ids) const {
  return std::visit([&](const auto& tokenizer) { return tokenizer.Decode(ids); }, kind_->of);
}

std::string_view TextTokenizer::Piece(int32_t id) const {
  return std::visit([&](const auto& tokenizer) { return tokenizer.Piece(id); }, kind_->of);
}

bool TextTokenizer::ContinuesWord(int32_t id) const {
  const std::string_view piece = Piece(id);
  if (word_piece() != nullptr) return piece.starts_with("##");
  return !piece.starts_with(kSpace) && !piece.starts_with(internal::kMetaspace);
}

int32_t TextTokenizer::vocab_size() const {
  return std::visit([](const auto& tokenizer) { return tokenizer.vocab_size(); }, kind_->of);
}

uint64_t TextTokenizer::Hash() const {
  const uint64_t hash =
      std::visit([](const auto& tokenizer) { return tokenizer.Hash(); }, kind_->of);
  return word_piece() != nullptr ? hash : internal::MixHash(hash, matches_special_tokens_ ? 1 : 0);
}

TextBatchEncoder::TextBatchEncoder(const TextTokenizer& tokenizer, int num_threads)
    : encoders_(std::make_unique<internal::TextEncoders>()) {
  const int count = num_threads > 0 ? num_threads : NumThreads();
  std::visit(
      [&](const auto& kind) {
        if constexpr (std::is_same_v<std::decay_t<decltype(kind)>, WordPieceTokenizer>) {
          auto& encoders = encoders_->of.emplace<std::vector<WordPieceEncoder>>();
          for (int i = 0; i < count; ++i) encoders.emplace_back(kind);
        } else {
          using Encoder =
              std::conditional_t<std::is_same_v<std::decay_t<decltype(kind)>, ByteBpeTokenizer>,
                                 ByteBpeEncoder, UnigramEncoder>;
          auto& encoders = encoders_->of.emplace<std::vector<Encoder>>();
          for (int i = 0; i < count; ++i) {
            encoders.emplace_back(kind, kCacheBytes, tokenizer.matches_special_tokens());
          }
        }
      },
      tokenizer.kind_->of);
}

TextBatchEncoder::~TextBatchEncoder() = default;

EncodedTexts TextBatchEncoder::Encode(std::span<const std::string_view> first,
                                      std::span<const std::string_view> second,
                                      const TextRowOptions& options) {
  return std::visit([&](auto& encoders) { return EncodeWith(encoders, first, second, options); },
                    encoders_->of);
}

}  // namespace dtrain
