// unigram_file.cc - reads Unigram models from tokenizer.json and from SentencePiece's files.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/utf8.h"
#include "dtrain/sentencepiece.pb.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "dtrain/tokenizers/internal/unigram_tables.h"

namespace dtrain::internal {
namespace {

using Json = nlohmann::json;

// The text that a piece matches, with a space for each U+2581.
std::string Spaced(std::string_view piece) {
  std::string text;
  for (size_t found = piece.find(kMetaspace); found != std::string_view::npos;
       found = piece.find(kMetaspace)) {
    text.append(piece.substr(0, found)) += ' ';
    piece.remove_prefix(found + kMetaspace.size());
  }
  return text.append(piece);
}

// -1 if the piece does not stand for a byte: <0x00> to <0xFF>.
int ByteOf(std::string_view piece) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return -1;
  const size_t high = kDigits.find(piece[3]);
  const size_t low = kDigits.find(piece[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return -1;
  return static_cast<int>(high * kDigits.size() + low);
}

// Fills id_of. Returns DataError where a piece occurs twice.
Status IndexPieces(const std::string& name, UnigramTables& tables) {
  tables.id_of.reserve(tables.pieces.size());
  for (size_t id = 0; id < tables.pieces.size(); ++id) {
    const std::string& piece = tables.pieces[id];
    if (piece.empty()) continue;  // an id that no piece has
    const auto [before, is_new] = tables.id_of.emplace(piece, static_cast<int32_t>(id));
    if (!is_new) {
      return DataError(absl::StrFormat("%s: the pieces %d and %d are both \"%s\"", name,
                                       before->second, id, Printable(piece)));
    }
  }
  return OkStatus();
}

void IndexBytes(UnigramTables& tables) {
  tables.byte_ids.fill(-1);
  if (!tables.byte_fallback) return;
  for (size_t id = 0; id < tables.pieces.size(); ++id) {
    const int byte = ByteOf(tables.pieces[id]);
    if (byte < 0) continue;
    tables.byte_ids[static_cast<size_t>(byte)] = static_cast<int32_t>(id);
    tables.kinds[id] = UnigramPieceKind::kByte;
  }
}

// --- tokenizer.json ---

Status ReadMetaspace(const Json& metaspace, const std::string& name, UnigramTables& tables) {
  const Json& replacement = FieldOf(metaspace, "replacement");
  if (!replacement.is_null() && replacement != std::string(kMetaspace)) {
    return DataError(absl::StrFormat("%s: pre_tokenizer Metaspace: replacement %s is not U+2581",
                                     name, Printable(JsonText(replacement))));
  }
  const Json& scheme = FieldOf(metaspace, "prepend_scheme");
  using Prefix = UnigramTables::Prefix;
  if (scheme.is_null()) {
    tables.prefix =
        FieldOf(metaspace, "add_prefix_space") == false ? Prefix::kNever : Prefix::kAlways;
  } else if (scheme == "always" || scheme == "first" || scheme == "never") {
    tables.prefix = scheme == "always"  ? Prefix::kAlways
                    : scheme == "first" ? Prefix::kFirst
                                        : Prefix::kNever;
  } else {
    return DataError(
        absl::StrFormat("%s: pre_tokenizer Metaspace: prepend_scheme %s is not known; known are "
                        "always, first and never",
                        name, Printable(JsonText(scheme))));
  }
  if (tables.prefix == Prefix::kFirst &&
      (tables.drops_white_space || tables.text_rules.may_drop_begin())) {
    return DataError(name +
                     ": pre_tokenizer Metaspace: prepend_scheme first is not known where the begin "
                     "of a text may "
                     "be dropped: by the normalizers Strip, Nmt or Replace, or by WhitespaceSplit");
  }
  tables.splits_spaces = FieldOf(metaspace, "split") != false;
  return OkStatus();
}

Status ReadSpaces(const Json& part, const std::string& name, UnigramTables& tables) {
  const std::string type = TypeOf(part);
  if (type == "Metaspace") return ReadMetaspace(part, name, tables);
  const Json& parts = FieldOf(part, "pretokenizers");
  if (type == "Sequence" && parts.is_array() && !parts.empty() && parts.size() <= 2 &&
      TypeOf(parts.back()) == "Metaspace" &&
      (parts.size() == 1 || TypeOf(parts.front()) == "WhitespaceSplit")) {
    tables.drops_white_space = parts.size() == 2;
    return ReadMetaspace(parts.back(), name, tables);
  }
  return DataError(
      absl::StrFormat("%s: pre_tokenizer %s is not known to Unigram; known is Metaspace, alone or "
                      "after WhitespaceSplit",
                      name, Printable(type.empty() ? "null" : type)));
}

// The score as `tokenizers` reads it, whose parser of JSON (serde_json) divides the decimal digits
// by a power of ten. Of more than 15 digits that may be the neighbour of the nearest number, which
// decides between two ways of equal sums.
double ScoreOf(double nearest) {
  std::array<char, 32> text{};
  const auto shortest = std::to_chars(text.data(), text.data() + text.size(), std::abs(nearest),
                                      std::chars_format::scientific);
  uint64_t digits = 0;
  int exponent = 0;
  const char* at = text.data();
  for (bool is_behind_point = false; at != shortest.ptr && *at != 'e'; ++at) {
    if (*at == '.') {
      is_behind_point = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    exponent -= is_behind_point ? 1 : 0;
  }
  int scale = 0;
  if (at != shortest.ptr) std::from_chars(at + (at[1] == '+' ? 2 : 1), shortest.ptr, scale);
  exponent += scale;
  constexpr int kLargestPower = 308;
  if (std::abs(exponent) > kLargestPower) return nearest;
  const double power = std::stod("1e" + std::to_string(std::abs(exponent)));
  const auto whole = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? whole / power : whole * power, nearest);
}

Status ReadPieces(const TokenizerFile& file, UnigramTables& tables, UnigramScores& scores) {
  const Json& vocabulary = FieldOf(file.model, "vocab");
  if (!vocabulary.is_array() || vocabulary.empty()) {
    return DataError(file.name + ": model.vocab is no list of [piece, score], or it is empty");
  }
  for (const Json& entry : vocabulary) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number() ||
        !std::isfinite(entry[1].get<double>())) {
      return DataError(absl::StrFormat("%s: model.vocab[%d] is no [piece, score]: %s", file.name,
                                       tables.pieces.size(), Printable(JsonText(entry))));
    }
    tables.pieces.push_back(entry[0].get<std::string>());
    scores.scores.push_back(ScoreOf(entry[1].get<double>()));
  }
  const Json& unk = FieldOf(file.model, "unk_id");
  if (!unk.is_number_integer()) {
    return DataError(file.name + ": model.unk_id is no id, so that unknown characters have none");
  }
  const auto unk_id = unk.get<int64_t>();
  if (unk_id < 0 || static_cast<size_t>(unk_id) >= tables.pieces.size()) {
    return DataError(absl::StrFormat("%s: model.unk_id %d is beyond the %d pieces", file.name,
                                     unk_id, tables.pieces.size()));
  }
  scores.unk_id = static_cast<int32_t>(unk_id);
  scores.unk_score =
      *std::min_element(scores.scores.begin(), scores.scores.end()) - kUnknownPenalty;
  for (const std::string& piece : tables.pieces) scores.surfaces.push_back(Spaced(piece));
  return OkStatus();
}

Status CheckUnigram(const TokenizerFile& file) {
  const Json& type = FieldOf(file.model, "type");
  if (type != "Unigram" && !(type.is_null() && file.model.contains("unk_id"))) {
    return DataError(absl::StrFormat("%s: its model is no Unigram but %s", file.name,
                                     Printable(type.is_string() ? type.get<std::string>() : "?")));
  }
  for (const char* const field : {"alpha", "nbest_size"}) {
    if (FieldOf(file.model, field).is_null()) continue;
    return DataError(absl::StrFormat(
        "%s: model.%s is set: it would draw pieces by chance, which dtrain does not", file.name,
        field));
  }
  return OkStatus();
}

void ReadUnigramTokens(const TokenizerFile& file, UnigramTables& tables) {
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  std::string buffer;
  for (const AddedToken& token : file.added_tokens) {
    if (!token.is_normalized) {
      raw.push_back(token);
      continue;
    }
    AddedToken changed = token;
    tables.text_rules.Apply(changed.content, buffer);
    if (!changed.content.empty()) normalized.push_back(std::move(changed));
  }
  tables.added_tokens = AddedTokens(raw, normalized);
}

// --- SentencePiece ---

StatusOr<UnigramPieceKind> KindOf(const spm::Model::Piece& piece, const std::string& where) {
  switch (piece.type()) {
    case 1:
    case 4:  // defined by the user
      return UnigramPieceKind::kText;
    case 2:
      return UnigramPieceKind::kUnknown;
    case 3:
      return UnigramPieceKind::kControl;
    case 5:
      return UnigramPieceKind::kUnused;
    case 6:
      if (ByteOf(piece.piece()) < 0) return DataError(where + " is no byte as <0x0A>");
      return UnigramPieceKind::kByte;
    default:
      return DataError(
          absl::StrFormat("%s has the type %d, which is not known", where, piece.type()));
  }
}

// SentencePiece prefers symbols of the user, the longer ones more, whatever their scores.
float SymbolScore(std::string_view symbol) {
  const auto characters = std::count_if(symbol.begin(), symbol.end(), [](char c) {
    return (static_cast<uint8_t>(c) & 0xC0u) != 0x80;
  });
  return static_cast<float>(0.1 * static_cast<double>(characters - 1));
}

struct ModelProtoReader {
  const spm::Model& file;
  const std::string& name;
  UnigramTables& tables;
  UnigramScores scores{};
  std::vector<std::string> symbols{};  // pieces that the user defined
  float lowest = std::numeric_limits<float>::max();

  Status ReadPiece(const spm::Model::Piece& piece) {
    const size_t id = tables.pieces.size();
    const std::string where =
        absl::StrFormat("%s: piece %d, \"%s\",", name, id, Printable(piece.piece()));
    if (piece.piece().empty() || piece.piece().find('\0') != std::string::npos ||
        !IsValidUtf8(piece.piece())) {
      return DataError(where + " is empty, has a NUL or is no UTF-8");
    }
    if (!std::isfinite(piece.score())) return DataError(where + " has no number as its score");
    DT_ASSIGN_OR_RETURN(const UnigramPieceKind kind, KindOf(piece, where));
    const bool is_symbol = piece.type() == 4;
    if (kind == UnigramPieceKind::kText && !is_symbol) {
      lowest = std::min(lowest, piece.score());
    }
    if (is_symbol) symbols.push_back(piece.piece());
    tables.pieces.push_back(piece.piece());
    tables.kinds.push_back(kind);
    scores.scores.push_back(
        static_cast<double>(is_symbol ? SymbolScore(piece.piece()) : piece.score()));
    const bool is_escaped = file.normalizer_spec().escape_whitespaces();
    scores.surfaces.push_back(kind != UnigramPieceKind::kText ? ""
                              : is_escaped                    ? Spaced(piece.piece())
                                                              : piece.piece());
    return OkStatus();
  }

  Status Read() {
    if (file.pieces_size() == 0 || !file.has_trainer_spec() || !file.has_normalizer_spec()) {
      return DataError(name + ": is no whole SentencePiece model; copy the file again");
    }
    static constexpr std::array kKinds = {"unknown", "Unigram", "BPE", "word", "character"};
    const int type = file.trainer_spec().model_type();
    if (type != 1) {
      return DataError(absl::StrFormat("%s: is a %s model of SentencePiece, not a Unigram model",
                                       name, type > 1 && type <= 4 ? kKinds[type] : kKinds[0]));
    }
    for (const spm::Model::Piece& piece : file.pieces()) DT_RETURN_IF_ERROR(ReadPiece(piece));
    const auto unknowns =
        std::count(tables.kinds.begin(), tables.kinds.end(), UnigramPieceKind::kUnknown);
    if (unknowns != 1) {
      return DataError(absl::StrFormat("%s: has %d pieces of type 2 (unknown); it must have one",
                                       name, unknowns));
    }
    const auto unknown =
        std::find(tables.kinds.begin(), tables.kinds.end(), UnigramPieceKind::kUnknown);
    scores.unk_id = static_cast<int32_t>(unknown - tables.kinds.begin());
    scores.unk_score = static_cast<double>(lowest - static_cast<float>(kUnknownPenalty));
    scores.rounds_sums = true;
    return ReadRules();
  }

  Status ReadRules() {
    const spm::NormalizerSpec& rules = file.normalizer_spec();
    DT_ASSIGN_OR_RETURN(CharacterMap map, CharacterMap::Parse(rules.precompiled_charsmap(),
                                                              name + ": normalizer_spec"));
    if (!file.denormalizer_spec().precompiled_charsmap().empty()) {
      return DataError(name + ": has a denormalizer_spec, which dtrain does not know");
    }
    tables.sentence_rules = SentenceRules(
        {.add_dummy_prefix = rules.add_dummy_prefix(),
         .remove_extra_whitespaces = rules.remove_extra_whitespaces(),
         .escape_whitespaces = rules.escape_whitespaces(),
         .treat_whitespace_as_suffix = file.trainer_spec().treat_whitespace_as_suffix()},
        std::move(map), symbols);
    tables.unk_surface = file.trainer_spec().unk_surface();
    tables.byte_fallback = file.trainer_spec().byte_fallback();
    const bool has_bytes = std::find(tables.kinds.begin(), tables.kinds.end(),
                                     UnigramPieceKind::kByte) != tables.kinds.end();
    if (has_bytes && !tables.byte_fallback) {
      return DataError(name + ": has byte pieces, though trainer_spec.byte_fallback is false");
    }
    return OkStatus();
  }
};

}  // namespace

StatusOr<UnigramTables> ReadUnigramJson(std::string_view text, const std::string& name) {
  DT_ASSIGN_OR_RETURN(const TokenizerFile file, ParseTokenizerFile(text, name));
  DT_RETURN_IF_ERROR(CheckUnigram(file));
  UnigramTables tables;
  DT_ASSIGN_OR_RETURN(tables.text_rules, TextRules::Parse(file.normalizer, name));
  DT_RETURN_IF_ERROR(ReadSpaces(file.pre_tokenizer, name, tables));
  UnigramScores scores;
  DT_RETURN_IF_ERROR(ReadPieces(file, tables, scores));
  DT_RETURN_IF_ERROR(CheckIds(file, tables.pieces.size()));
  tables.byte_fallback = FieldOf(file.model, "byte_fallback") == true;
  tables.model = UnigramModel(std::move(scores));
  AddSpecialPieces(file, tables.pieces);
  tables.kinds.resize(tables.pieces.size(), UnigramPieceKind::kText);
  DT_RETURN_IF_ERROR(IndexPieces(name, tables));
  IndexBytes(tables);
  tables.single = file.single;
  tables.pair = file.pair;
  ReadUnigramTokens(file, tables);
  return tables;
}

StatusOr<UnigramTables> ReadUnigramModelProto(std::string_view bytes, const std::string& name) {
  spm::Model file;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataError(name +
                     ": is no SentencePiece model, or only a part of one: its records do "
                     "not parse");
  }
  UnigramTables tables;
  tables.is_sentencepiece = true;
  ModelProtoReader reader{file, name, tables};
  DT_RETURN_IF_ERROR(reader.Read());
  DT_RETURN_IF_ERROR(IndexPieces(name, tables));
  IndexBytes(tables);
  for (size_t byte = 0; tables.byte_fallback && byte < tables.byte_ids.size(); ++byte) {
    if (tables.byte_ids[byte] >= 0) continue;
    return DataError(absl::StrFormat(
        "%s: trainer_spec.byte_fallback is true, but there is no piece <0x%02X>", name, byte));
  }
  tables.model = UnigramModel(std::move(reader.scores));
  return tables;
}

}  // namespace dtrain::internal
