// marian.cc - cuts at special tokens, lets SentencePiece cut the rest, and looks up the pieces.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/marian.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/internal/hash.h"
#include "dtrain/tokenizers/internal/added_tokens.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "dtrain/tokenizers/internal/line_batches.h"
#include "dtrain/tokenizers/internal/tokenizer_file.h"
#include "dtrain/tokenizers/unigram.h"
#include "nlohmann/json.hpp"

namespace dtrain {
namespace internal {

// One language: its SentencePiece model, and the vocabulary's ids of the model's pieces.
struct MarianSpm {
  UnigramTokenizer model;
  std::vector<int32_t> ids;
};

// A vocabulary. It stays where it is, since id_of looks at its pieces.
struct MarianPieces {
  explicit MarianPieces(std::vector<std::string> all) : pieces(std::move(all)) {
    for (size_t id = 0; id < pieces.size(); ++id) {
      if (!pieces[id].empty()) id_of.emplace(pieces[id], static_cast<int32_t>(id));
    }
  }
  MarianPieces(const MarianPieces&) = delete;
  MarianPieces& operator=(const MarianPieces&) = delete;

  int32_t IdOr(std::string_view piece, int32_t otherwise) const {
    const auto found = id_of.find(piece);
    return found == id_of.end() ? otherwise : found->second;
  }

  std::vector<std::string> pieces;  // by id; "" where no piece has the id
  std::unordered_map<std::string_view, int32_t> id_of;
};

struct MarianTables {
  MarianTables(std::vector<std::string> source_pieces, std::vector<std::string> target_pieces)
      : source(std::move(source_pieces)) {
    if (!target_pieces.empty()) target.emplace(std::move(target_pieces));
  }

  const MarianSpm& spm(MarianSide side) const { return sides[static_cast<size_t>(side)]; }
  const MarianPieces& vocabulary(MarianSide side) const {
    return side == MarianSide::kTarget && target ? *target : source;
  }
  // The id in both vocabularies; -1 where one of them has no such piece, or another id.
  int32_t IdInBoth(std::string_view piece) const {
    const int32_t id = source.IdOr(piece, -1);
    return vocabulary(MarianSide::kTarget).IdOr(piece, -1) == id ? id : -1;
  }

  MarianPieces source;                 // of both languages, unless the target has its own
  std::optional<MarianPieces> target;  // not empty
  std::vector<MarianSpm> sides;        // by MarianSide
  int32_t unk_id = -1, eos_id = -1, pad_id = -1;
  std::vector<bool> is_special;  // by id, of either vocabulary
  AddedTokenMatcher specials{{}};
  uint64_t hash = 0;
};

struct MarianScratch {
  std::array<UnigramEncoder, 2> encoders;  // by MarianSide
  std::string valid;
  std::vector<int32_t> ids;
  std::vector<std::string> pieces;
};

}  // namespace internal

namespace {

using internal::FieldOf;
using internal::MarianSpm;
using internal::MarianTables;
using nlohmann::json;

constexpr char kSourceFile[] = "source.spm";
constexpr char kTargetFile[] = "target.spm";
constexpr char kVocabularyFile[] = "vocab.json";
constexpr char kConfigFile[] = "tokenizer_config.json";
constexpr char kTargetVocabularyFile[] = "target_vocab.json";

// A token of tokenizer_config.json: a text, or an object that has it.
std::string TokenIn(const json& config, const char* key, const char* otherwise) {
  const json& value = FieldOf(config, key);
  const json& text = value.is_object() ? FieldOf(value, "content") : value;
  return text.is_string() ? text.get<std::string>() : otherwise;
}

// Sets `id` to that of the special token, which texts are cut at.
Status TakeSpecial(const std::string& token, const std::string& path, MarianTables& tables,
                   std::vector<internal::AddedToken>& specials, int32_t& id) {
  id = tables.IdInBoth(token);
  if (id < 0) {
    return DataError(absl::StrFormat(
        "%s: lacks the special token \"%s\"%s", path, Printable(token),
        tables.target ? absl::StrFormat(", or %s has it with another id", kTargetVocabularyFile)
                      : ""));
  }
  if (tables.is_special[static_cast<size_t>(id)]) return OkStatus();
  tables.is_special[static_cast<size_t>(id)] = true;
  specials.push_back({.content = token, .id = id, .is_special = true});
  return OkStatus();
}

// Tokens of added_tokens_decoder, {id: {content, ...}}: those that the class needs, and others.
Status TakeAddedTokens(const json& config, const std::string& path, MarianTables& tables,
                       std::vector<internal::AddedToken>& specials) {
  for (const auto& [number, token] : FieldOf(config, "added_tokens_decoder").items()) {
    const std::string content = TokenIn(json{{"token", token}}, "token", "");
    const int32_t id = tables.IdInBoth(content);
    if (id < 0 || std::to_string(id) != number) {
      return DataError(absl::StrFormat(
          "%s: added_tokens_decoder: \"%s\" with the id %s is not in %s; dtrain loads no tokens "
          "that were added to a Marian model",
          path, Printable(content), Printable(number), kVocabularyFile));
    }
    for (const char* const flag : {"lstrip", "rstrip", "single_word"}) {
      if (FieldOf(token, flag) != true) continue;
      return DataError(absl::StrFormat("%s: added_tokens_decoder: %s of \"%s\" is not known", path,
                                       flag, Printable(content)));
    }
    if (tables.is_special[static_cast<size_t>(id)]) continue;
    tables.is_special[static_cast<size_t>(id)] = FieldOf(token, "special") == true;
    specials.push_back({.content = content, .id = id, .is_special = true});
  }
  return OkStatus();
}

Status TakeConfig(const std::string& text, const std::string& folder, MarianTables& tables) {
  const std::string path = folder + "/" + kConfigFile;
  const json config = text.empty() ? json::object() : internal::ParseJson<json>(text);
  if (!config.is_object()) return DataError(path + ": is no JSON object; fetch the model again");
  const bool is_separate = FieldOf(config, "separate_vocabs") == true;
  if (is_separate != tables.target.has_value()) {
    return DataError(
        absl::StrFormat("%s: separate_vocabs is %s, but %s is %s; fetch the model again", path,
                        is_separate ? "true" : "not true", kTargetVocabularyFile,
                        is_separate ? "missing" : "there"));
  }
  if (const json& options = FieldOf(config, "sp_model_kwargs"); !options.empty()) {
    return DataError(absl::StrFormat("%s: sp_model_kwargs %s is not known", path,
                                     Printable(internal::JsonText(options))));
  }
  const std::string vocabulary = folder + "/" + kVocabularyFile;
  std::vector<internal::AddedToken> specials;
  tables.is_special.resize(
      std::max(tables.source.pieces.size(), tables.vocabulary(MarianSide::kTarget).pieces.size()));
  DT_RETURN_IF_ERROR(TakeSpecial(TokenIn(config, "unk_token", "<unk>"), vocabulary, tables,
                                 specials, tables.unk_id));
  DT_RETURN_IF_ERROR(TakeSpecial(TokenIn(config, "eos_token", "</s>"), vocabulary, tables, specials,
                                 tables.eos_id));
  DT_RETURN_IF_ERROR(TakeSpecial(TokenIn(config, "pad_token", "<pad>"), vocabulary, tables,
                                 specials, tables.pad_id));
  DT_RETURN_IF_ERROR(TakeAddedTokens(config, path, tables, specials));
  tables.hash = internal::StableHash("Marian");
  for (const internal::AddedToken& token : specials) {
    tables.hash = internal::StableHash(token.content, tables.hash);
  }
  tables.specials = internal::AddedTokenMatcher(std::move(specials));
  return OkStatus();
}

Status TakeSpm(const std::string& bytes, const std::string& path, MarianSide side,
               MarianTables& tables) {
  DT_ASSIGN_OR_RETURN(UnigramTokenizer model, UnigramTokenizer::FromModelProto(bytes, path));
  MarianSpm spm{std::move(model), {}};
  for (int32_t id = 0; id < spm.model.vocab_size(); ++id) {
    spm.ids.push_back(tables.vocabulary(side).IdOr(spm.model.Piece(id), tables.unk_id));
  }
  tables.hash = internal::MixHash(tables.hash, spm.model.Hash());
  tables.sides.push_back(std::move(spm));
  return OkStatus();
}

StatusOr<std::string> ReadFile(const std::string& path) {
  StatusOr<std::string> contents = ReadWholeFile(path);
  return contents.ok() ? std::move(contents) : DataError(contents.status().message());
}

}  // namespace

MarianTokenizer::MarianTokenizer(std::shared_ptr<const internal::MarianTables> tables)
    : tables_(std::move(tables)) {}

StatusOr<MarianTokenizer> MarianTokenizer::Load(const std::string& folder) {
  std::error_code error;
  const auto exists = [&](const char* name) {
    return std::filesystem::exists(std::filesystem::path(folder) / name, error);
  };
  MarianFiles files;
  DT_ASSIGN_OR_RETURN(files.source_spm, ReadFile(folder + "/" + kSourceFile));
  DT_ASSIGN_OR_RETURN(files.target_spm, ReadFile(folder + "/" + kTargetFile));
  DT_ASSIGN_OR_RETURN(files.vocabulary, ReadFile(folder + "/" + kVocabularyFile));
  if (exists(kConfigFile)) {
    DT_ASSIGN_OR_RETURN(files.config, ReadFile(folder + "/" + kConfigFile));
  }
  if (exists(kTargetVocabularyFile)) {
    DT_ASSIGN_OR_RETURN(files.target_vocabulary, ReadFile(folder + "/" + kTargetVocabularyFile));
  }
  return FromFiles(files, folder);
}

StatusOr<MarianTokenizer> MarianTokenizer::FromFiles(const MarianFiles& files,
                                                     const std::string& folder) {
  const auto pieces_of = [&](const std::string& text, const char* name) {
    internal::TokenizerFile named;
    named.name = folder + "/" + name;
    return internal::PiecesOf(internal::ParseJson<json>(text), named);
  };
  DT_ASSIGN_OR_RETURN(std::vector<std::string> pieces,
                      pieces_of(files.vocabulary, kVocabularyFile));
  std::vector<std::string> target_pieces;
  if (!files.target_vocabulary.empty()) {
    DT_ASSIGN_OR_RETURN(target_pieces, pieces_of(files.target_vocabulary, kTargetVocabularyFile));
  }
  const auto tables = std::make_shared<MarianTables>(std::move(pieces), std::move(target_pieces));
  DT_RETURN_IF_ERROR(TakeConfig(files.config, folder, *tables));
  for (const std::string& piece : tables->source.pieces) {
    tables->hash = internal::StableHash(piece, tables->hash);
  }
  if (tables->target) {
    tables->hash = internal::StableHash("target", tables->hash);
    for (const std::string& piece : tables->target->pieces) {
      tables->hash = internal::StableHash(piece, tables->hash);
    }
  }
  DT_RETURN_IF_ERROR(
      TakeSpm(files.source_spm, folder + "/" + kSourceFile, MarianSide::kSource, *tables));
  DT_RETURN_IF_ERROR(
      TakeSpm(files.target_spm, folder + "/" + kTargetFile, MarianSide::kTarget, *tables));
  return MarianTokenizer(tables);
}

std::string MarianTokenizer::Decode(std::span<const int32_t> ids) const {
  std::vector<std::string> pieces;
  for (const int32_t id : ids) {
    const std::string_view piece = Piece(id);
    if (!tables_->is_special[static_cast<size_t>(id)]) pieces.emplace_back(piece);
  }
  // transformers decodes by the model of the sources where both languages have one vocabulary. That
  // model may not have a piece of the targets.
  const MarianSide side = tables_->target ? MarianSide::kTarget : MarianSide::kSource;
  const std::string decoded = tables_->spm(side).model.DecodePieces(pieces);
  std::string text;
  std::string_view rest = decoded;
  for (size_t found = rest.find(internal::kMetaspace); found != std::string_view::npos;
       found = rest.find(internal::kMetaspace)) {
    text.append(rest.substr(0, found)) += ' ';
    rest.remove_prefix(found + internal::kMetaspace.size());
  }
  text.append(rest);
  constexpr char kSpaces[] = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

std::string_view MarianTokenizer::Piece(int32_t id, MarianSide side) const {
  DT_CHECK(id >= 0 && id < vocab_size(side)) << "id " << id << " of " << vocab_size(side);
  return tables_->vocabulary(side).pieces[static_cast<size_t>(id)];
}

int32_t MarianTokenizer::IdOf(std::string_view piece, MarianSide side) const {
  return tables_->vocabulary(side).IdOr(piece, -1);
}
int32_t MarianTokenizer::vocab_size(MarianSide side) const {
  return static_cast<int32_t>(tables_->vocabulary(side).pieces.size());
}
bool MarianTokenizer::has_separate_vocabularies() const { return tables_->target.has_value(); }
int32_t MarianTokenizer::unk_id() const { return tables_->unk_id; }
int32_t MarianTokenizer::eos_id() const { return tables_->eos_id; }
int32_t MarianTokenizer::pad_id() const { return tables_->pad_id; }
uint64_t MarianTokenizer::Hash() const { return tables_->hash; }

MarianEncoder::MarianEncoder(MarianTokenizer tokenizer)
    : tokenizer_(std::move(tokenizer)),
      scratch_(std::make_unique<internal::MarianScratch>(internal::MarianScratch{
          .encoders = {UnigramEncoder(tokenizer_.tables_->spm(MarianSide::kSource).model),
                       UnigramEncoder(tokenizer_.tables_->spm(MarianSide::kTarget).model)},
          .valid = {},
          .ids = {},
          .pieces = {}})) {}
MarianEncoder::MarianEncoder(MarianEncoder&&) noexcept = default;
MarianEncoder& MarianEncoder::operator=(MarianEncoder&&) noexcept = default;
MarianEncoder::~MarianEncoder() = default;

void MarianEncoder::Encode(std::string_view text, MarianSide side, std::vector<int32_t>& ids) {
  if (!IsValidUtf8(text)) {
    scratch_->valid = MendInvalidUtf8(text, InvalidText::kReplace);
    text = scratch_->valid;
  }
  tokenizer_.tables_->specials.Split(
      text, [&](std::string_view part) { EncodePart(part, side, ids); },
      [&](int32_t id) { ids.push_back(id); });
}

void MarianEncoder::EncodePart(std::string_view part, MarianSide side, std::vector<int32_t>& ids) {
  const MarianTables& tables = *tokenizer_.tables_;
  const MarianSpm& spm = tables.spm(side);
  const internal::MarianPieces& vocabulary = tables.vocabulary(side);
  UnigramEncoder& encoder = scratch_->encoders[static_cast<size_t>(side)];
  if (const size_t end = part.find("<<"); part.starts_with(">>") && end != std::string_view::npos) {
    ids.push_back(vocabulary.IdOr(part.substr(0, end + 2), tables.unk_id));
    part.remove_prefix(end + 2);
  }
  std::vector<int32_t>& own = scratch_->ids;
  own.clear();
  encoder.Encode(part, own);
  const int32_t unknown = spm.model.unk_id();
  if (std::find(own.begin(), own.end(), unknown) == own.end()) {
    for (const int32_t id : own) ids.push_back(spm.ids[static_cast<size_t>(id)]);
    return;
  }
  // What this model does not know may be a piece of the vocabulary, such as one of the other model.
  own.clear();
  scratch_->pieces.clear();
  encoder.EncodePieces(part, own, scratch_->pieces);
  for (size_t i = 0; i < own.size(); ++i) {
    ids.push_back(own[i] == unknown ? vocabulary.IdOr(scratch_->pieces[i], tables.unk_id)
                                    : spm.ids[static_cast<size_t>(own[i])]);
  }
}

MarianBatchEncoder::MarianBatchEncoder(const MarianTokenizer& tokenizer, int num_threads) {
  const int count = num_threads > 0 ? num_threads : NumThreads();
  for (int i = 0; i < count; ++i) encoders_.emplace_back(tokenizer);
}

EncodedLines MarianBatchEncoder::Encode(std::span<const std::string> lines, MarianLines sides) {
  const auto side_of = [&](size_t line) {
    if (sides == MarianLines::kPairs)
      return line % 2 == 0 ? MarianSide::kSource : MarianSide::kTarget;
    return sides == MarianLines::kSources ? MarianSide::kSource : MarianSide::kTarget;
  };
  return internal::EncodeLinesInParts(encoders_.size(), lines.size(),
                                      [&](size_t part, size_t line, std::vector<int32_t>& ids) {
                                        encoders_[part].Encode(lines[line], side_of(line), ids);
                                      });
}

}  // namespace dtrain
