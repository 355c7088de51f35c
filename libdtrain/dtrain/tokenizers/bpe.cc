// bpe.cc - compiles a vocabulary into tables; encodes single lines and decodes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/bpe.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/status.h"
#include "dtrain/tokenizers/internal/bpe_tables.h"
#include "dtrain/tokenizers/internal/bpe_text.h"

namespace dtrain {
namespace internal {

namespace {

std::string ByteText(int byte) { return absl::StrFormat("<0x%02X>", byte); }

bool IsByteText(std::string_view text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') && is_hex(text[3]) &&
         is_hex(text[4]);
}

// Byte offsets of the characters of `text`, which must be valid UTF-8.
std::vector<size_t> CharacterOffsets(std::string_view text) {
  std::vector<size_t> offsets;
  for (size_t i = 0, size = 0; i < text.size(); i += size) {
    offsets.push_back(i);
    DecodeUtf8(text.substr(i), size);
  }
  return offsets;
}

// The rank of each id: 0 for the normal piece with the highest score. Equal scores share a rank.
std::vector<uint32_t> Ranks(const std::vector<BpePiece>& pieces) {
  std::vector<float> scores;
  for (const BpePiece& piece : pieces) {
    if (piece.type == BpePieceType::kNormal) scores.push_back(piece.score);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<uint32_t> ranks(pieces.size(), 0);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].type != BpePieceType::kNormal) continue;
    const auto at =
        std::lower_bound(scores.begin(), scores.end(), pieces[i].score, std::greater<>());
    ranks[i] = static_cast<uint32_t>(at - scores.begin());
  }
  return ranks;
}

uint64_t HashVocabulary(const BpeVocabulary& vocabulary, const std::vector<uint32_t>& ranks) {
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  const auto add_byte = [&](uint8_t byte) { hash = (hash ^ byte) * 0x100000001B3u; };
  const auto add = [&](uint64_t number) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<uint8_t>(number >> (8 * i)));
  };
  for (const int32_t id : {vocabulary.unk_id, vocabulary.bos_id, vocabulary.eos_id}) {
    add(static_cast<uint64_t>(id));
  }
  add(vocabulary.byte_fallback ? 1 : 0);
  for (size_t i = 0; i < vocabulary.pieces.size(); ++i) {
    const BpePiece& piece = vocabulary.pieces[i];
    add(piece.text.size());
    for (const char c : piece.text) add_byte(static_cast<uint8_t>(c));
    add(static_cast<uint64_t>(piece.type));
    add(ranks[i]);
  }
  return hash;
}

Status CheckVocabulary(const BpeVocabulary& vocabulary) {
  const std::vector<BpePiece>& pieces = vocabulary.pieces;
  std::unordered_map<std::string_view, size_t> seen;
  size_t num_normal = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string& text = pieces[i].text;
    if (text.empty()) return DataError(absl::StrFormat("piece %d is empty", i));
    if (!IsValidUtf8(text)) return DataError(absl::StrFormat("piece %d is not UTF-8", i));
    const auto [at, is_new] = seen.emplace(text, i);
    if (!is_new) {
      return DataError(absl::StrFormat("pieces %d and %d are both '%s'", at->second, i, text));
    }
    if (pieces[i].type == BpePieceType::kByte && !IsByteText(text)) {
      return DataError(absl::StrFormat("'%s' is not a byte piece", text));
    }
    if (pieces[i].type == BpePieceType::kUserDefined && text.find(' ') != std::string::npos) {
      return DataError(absl::StrFormat("the user-defined piece '%s' has a space", text));
    }
    num_normal += pieces[i].type == BpePieceType::kNormal;
  }
  if (num_normal == 0) return DataError("there are no pieces");
  const auto has_type = [&](int32_t id, BpePieceType type) {
    return id >= 0 && static_cast<size_t>(id) < pieces.size() &&
           pieces[static_cast<size_t>(id)].type == type;
  };
  if (!has_type(vocabulary.unk_id, BpePieceType::kUnknown)) {
    return DataError(absl::StrFormat("id %d is not the unknown piece", vocabulary.unk_id));
  }
  for (const int32_t id : {vocabulary.bos_id, vocabulary.eos_id}) {
    if (!has_type(id, BpePieceType::kControl)) {
      return DataError(
          absl::StrFormat("id %d is not a control piece; <s> and </s> are both needed", id));
    }
  }
  for (int byte = 0; vocabulary.byte_fallback && byte < 256; ++byte) {
    const auto at = seen.find(ByteText(byte));
    if (at == seen.end() || pieces[at->second].type != BpePieceType::kByte) {
      return DataError(absl::StrFormat("the byte piece %s is missing", ByteText(byte)));
    }
  }
  return OkStatus();
}

using SymbolOfText = std::unordered_map<std::string_view, int32_t>;

// Numbers the symbols: first normal pieces by their ids, then characters that occur only inside
// pieces.
SymbolOfText NumberSymbols(BpeTables& tables) {
  const std::vector<BpePiece>& pieces = tables.vocabulary.pieces;
  SymbolOfText symbols;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].type == BpePieceType::kNormal) {
      symbols.emplace(pieces[i].text, static_cast<int32_t>(i));
    }
  }
  auto next = static_cast<int32_t>(pieces.size());
  for (const BpePiece& piece : pieces) {
    if (piece.type != BpePieceType::kNormal) continue;
    const std::string_view text = piece.text;
    for (size_t i = 0, size = 0; i < text.size(); i += size) {
      const uint32_t c = DecodeUtf8(text.substr(i), size);
      if (c == kMetaspaceCodePoint && i > 0) tables.words_are_independent = false;
      const auto [at, is_new] = symbols.emplace(text.substr(i, size), next);
      next += is_new;
      if (c >= tables.symbol_of_code_point.size()) {
        tables.symbol_of_code_point.resize(c + 1, kNoSymbol);
      }
      tables.symbol_of_code_point[c] = at->second;
    }
  }
  for (const BpePiece& piece : pieces) {
    const bool spans_words = piece.type == BpePieceType::kUserDefined &&
                             piece.text.rfind(kMetaspace) != std::string::npos &&
                             piece.text.rfind(kMetaspace) != 0;
    if (spans_words) tables.words_are_independent = false;
  }
  // An unknown U+2581 would be merged with unknown characters at the end of the previous word.
  const auto metaspace = symbols.find(kMetaspace);
  if (metaspace == symbols.end() || !tables.is_known(metaspace->second)) {
    tables.words_are_independent = false;
  }
  return symbols;
}

// All ways to build a piece from two symbols. SentencePiece merges by the text of the result.
PairTable MakePairs(const BpeVocabulary& vocabulary, const SymbolOfText& symbols,
                    const std::vector<uint32_t>& ranks) {
  struct Pair {
    int32_t left;
    int32_t right;
    size_t merged;
  };
  std::vector<Pair> found;
  for (size_t i = 0; i < vocabulary.pieces.size(); ++i) {
    if (vocabulary.pieces[i].type != BpePieceType::kNormal) continue;
    const std::string_view text = vocabulary.pieces[i].text;
    for (const size_t offset : CharacterOffsets(text)) {
      if (offset == 0) continue;
      const auto left = symbols.find(text.substr(0, offset));
      const auto right = symbols.find(text.substr(offset));
      if (left == symbols.end() || right == symbols.end()) continue;
      found.push_back({left->second, right->second, i});
    }
  }
  PairTable pairs(found.size());
  for (const Pair& pair : found) {
    pairs.Insert(pair.left, pair.right, static_cast<int32_t>(pair.merged), ranks[pair.merged]);
  }
  return pairs;
}

// Finds user-defined pieces; absent if there are none.
std::optional<PieceTrie> UserDefined(const std::vector<BpePiece>& pieces) {
  std::vector<std::string> texts(pieces.size());
  bool has_any = false;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].type != BpePieceType::kUserDefined) continue;
    texts[i] = pieces[i].text;
    has_any = true;
  }
  return has_any ? std::optional<PieceTrie>(std::in_place, texts) : std::nullopt;
}

}  // namespace
}  // namespace internal

BpeModel::BpeModel(std::shared_ptr<const internal::BpeTables> tables)
    : tables_(std::move(tables)) {}

StatusOr<BpeModel> BpeModel::FromVocabulary(BpeVocabulary vocabulary) {
  DT_RETURN_IF_ERROR(internal::CheckVocabulary(vocabulary));
  auto tables = std::make_shared<internal::BpeTables>();
  tables->vocabulary = std::move(vocabulary);
  const std::vector<BpePiece>& pieces = tables->vocabulary.pieces;
  const std::vector<uint32_t> ranks = internal::Ranks(pieces);
  tables->hash = internal::HashVocabulary(tables->vocabulary, ranks);
  const internal::SymbolOfText symbols = internal::NumberSymbols(*tables);
  tables->pairs = internal::MakePairs(tables->vocabulary, symbols, ranks);
  tables->user_defined = internal::UserDefined(pieces);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].type != BpePieceType::kByte) continue;
    const size_t byte = std::stoul(pieces[i].text.substr(3, 2), nullptr, 16);
    tables->byte_ids[byte] = static_cast<int32_t>(i);
  }
  return BpeModel(std::move(tables));
}

int32_t BpeModel::vocab_size() const {
  return static_cast<int32_t>(tables_->vocabulary.pieces.size()) + 1;
}
int32_t BpeModel::unk_id() const { return tables_->vocabulary.unk_id; }
int32_t BpeModel::bos_id() const { return tables_->vocabulary.bos_id; }
int32_t BpeModel::eos_id() const { return tables_->vocabulary.eos_id; }
const BpeVocabulary& BpeModel::vocabulary() const { return tables_->vocabulary; }
uint64_t BpeModel::Hash() const { return tables_->hash; }

std::string_view BpeModel::Piece(int32_t id) const {
  DT_CHECK(id >= 0 && id < vocab_size()) << "id " << id << " of " << vocab_size();
  if (id == pad_id()) return "<pad>";
  return tables_->vocabulary.pieces[static_cast<size_t>(id)].text;
}

std::vector<int32_t> BpeModel::Encode(std::string_view line) const { return Encode(line, {}); }

std::vector<int32_t> BpeModel::Encode(std::string_view line,
                                      const BpeEncodeOptions& options) const {
  DT_CHECK(options.dropout >= 0.0f && options.dropout <= 1.0f);
  internal::MergeDropout dropout{options.dropout, RandomStream(options.key)};
  internal::BpeScratch scratch;
  std::vector<int32_t> ids;
  const auto append = [&](std::string_view segment) {
    internal::MergeSegment(*tables_, segment, options.dropout > 0.0f ? &dropout : nullptr, scratch);
    internal::AppendIds(*tables_, segment, scratch, 0, ids);
  };
  if (tables_->words_are_independent) {
    internal::ForEachWord(line, scratch.line, [&](std::string_view word) {
      scratch.segment.assign(internal::kMetaspace);
      scratch.segment.append(word);
      append(scratch.segment);
    });
  } else if (const std::string text = internal::NormalizeLine(line); !text.empty()) {
    append(text);
  }
  return ids;
}

std::vector<std::string> BpeModel::EncodePieces(std::string_view line) const {
  const std::string text = internal::NormalizeLine(line);
  std::vector<std::string> pieces;
  if (text.empty()) return pieces;
  internal::BpeScratch scratch;
  internal::MergeSegment(*tables_, text, nullptr, scratch);
  bool after_unknown = false;
  for (int32_t i = 0; i >= 0; i = scratch.symbols[static_cast<size_t>(i)].next) {
    const auto& symbol = scratch.symbols[static_cast<size_t>(i)];
    const std::string_view piece = std::string_view(text).substr(symbol.begin, symbol.size);
    const bool is_known = tables_->is_known(symbol.symbol);
    if (!is_known && tables_->vocabulary.byte_fallback) {
      for (const char byte : piece) {
        pieces.push_back(internal::ByteText(static_cast<uint8_t>(byte)));
      }
    } else if (!is_known && after_unknown) {
      pieces.back() += piece;
    } else {
      pieces.emplace_back(piece);
    }
    after_unknown = !is_known;
  }
  return pieces;
}

std::string BpeModel::Decode(std::span<const int32_t> ids) const {
  std::string text;
  std::string bytes;
  const auto flush_bytes = [&] {
    for (std::string_view rest = bytes; !rest.empty();) {
      size_t size;
      const bool valid = DecodeUtf8(rest, size) != kInvalidCodePoint;
      text += valid ? rest.substr(0, size) : kReplacement;
      rest.remove_prefix(size);
    }
    bytes.clear();
  };
  for (const int32_t id : ids) {
    std::string_view piece = Piece(id);
    const BpePieceType type = id == pad_id()
                                  ? BpePieceType::kControl
                                  : tables_->vocabulary.pieces[static_cast<size_t>(id)].type;
    if (type == BpePieceType::kByte) {
      bytes.push_back(static_cast<char>(std::stoi(std::string(piece.substr(3, 2)), nullptr, 16)));
      continue;
    }
    flush_bytes();
    if (type == BpePieceType::kControl) continue;
    if (type == BpePieceType::kUnknown) {
      text += " \xE2\x81\x87 ";
      continue;
    }
    // The space at the beginning of every line is not part of the text.
    if (text.empty() && piece.starts_with(internal::kMetaspace)) {
      piece.remove_prefix(internal::kMetaspace.size());
    }
    for (size_t at = 0; at < piece.size();) {
      const size_t space = std::min(piece.find(internal::kMetaspace, at), piece.size());
      text += piece.substr(at, space - at);
      if (space < piece.size()) text += ' ';
      at = space + internal::kMetaspace.size();
    }
  }
  flush_bytes();
  return text;
}

}  // namespace dtrain
