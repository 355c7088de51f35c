// marian.cc - cuts at special tokens, lets SentencePiece cut the rest, and looks up the pieces.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/marian.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
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

struct MarianTables {
  explicit MarianTables(std::vector<std::string> all) : pieces(std::move(all)) {
    for (size_t id = 0; id < pieces.size(); ++id) {
      if (!pieces[id].empty()) id_of.emplace(pieces[id], static_cast<int32_t>(id));
    }
  }

  int32_t IdOr(std::string_view piece, int32_t otherwise) const {
    const auto found = id_of.find(piece);
    return found == id_of.end() ? otherwise : found->second;
  }
  const MarianSpm& spm(MarianSide side) const { return sides[static_cast<size_t>(side)]; }

  std::vector<std::string> pieces;  // by id; "" where no piece has the id
  std::unordered_map<std::string_view, int32_t> id_of;
  std::vector<MarianSpm> sides;  // by MarianSide
  int32_t unk_id = -1, eos_id = -1, pad_id = -1;
  std::vector<bool> is_special;  // by id
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

Status RefuseTwoVocabularies(const std::string& path, const char* what) {
  return DataError(absl::StrFormat(
      "%s: %s: each language has a vocabulary of its own; dtrain loads Marian models whose "
      "languages share one",
      path, what));
}

// A token of tokenizer_config.json: a text, or an object that has it.
std::string TokenIn(const json& config, const char* key, const char* otherwise) {
  const json& value = FieldOf(config, key);
  const json& text = value.is_object() ? FieldOf(value, "content") : value;
  return text.is_string() ? text.get<std::string>() : otherwise;
}

// Sets `id` to that of the special token, which texts are cut at.
Status TakeSpecial(const std::string& token, const std::string& path, MarianTables& tables,
                   std::vector<internal::AddedToken>& specials, int32_t& id) {
  id = tables.IdOr(token, -1);
  if (id < 0) {
    return DataError(absl::StrFormat("%s: lacks the special token \"%s\"", path, Printable(token)));
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
    const int32_t id = tables.IdOr(content, -1);
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
  if (FieldOf(config, "separate_vocabs") == true) {
    return RefuseTwoVocabularies(path, "separate_vocabs is true");
  }
  if (const json& options = FieldOf(config, "sp_model_kwargs"); !options.empty()) {
    return DataError(absl::StrFormat("%s: sp_model_kwargs %s is not known", path,
                                     Printable(internal::JsonText(options))));
  }
  const std::string vocabulary = folder + "/" + kVocabularyFile;
  std::vector<internal::AddedToken> specials;
  tables.is_special.resize(tables.pieces.size());
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

Status TakeSpm(const std::string& bytes, const std::string& path, MarianTables& tables) {
  DT_ASSIGN_OR_RETURN(UnigramTokenizer model, UnigramTokenizer::FromModelProto(bytes, path));
  MarianSpm spm{std::move(model), {}};
  for (int32_t id = 0; id < spm.model.vocab_size(); ++id) {
    spm.ids.push_back(tables.IdOr(spm.model.Piece(id), tables.unk_id));
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
  if (exists(kTargetVocabularyFile)) {
    return RefuseTwoVocabularies(folder + "/" + kTargetVocabularyFile, "is there");
  }
  MarianFiles files;
  DT_ASSIGN_OR_RETURN(files.source_spm, ReadFile(folder + "/" + kSourceFile));
  DT_ASSIGN_OR_RETURN(files.target_spm, ReadFile(folder + "/" + kTargetFile));
  DT_ASSIGN_OR_RETURN(files.vocabulary, ReadFile(folder + "/" + kVocabularyFile));
  if (exists(kConfigFile)) {
    DT_ASSIGN_OR_RETURN(files.config, ReadFile(folder + "/" + kConfigFile));
  }
  return FromFiles(files, folder);
}

StatusOr<MarianTokenizer> MarianTokenizer::FromFiles(const MarianFiles& files,
                                                     const std::string& folder) {
  internal::TokenizerFile named;
  named.name = folder + "/" + kVocabularyFile;
  DT_ASSIGN_OR_RETURN(std::vector<std::string> pieces,
                      internal::PiecesOf(internal::ParseJson<json>(files.vocabulary), named));
  const auto tables = std::make_shared<MarianTables>(std::move(pieces));
  DT_RETURN_IF_ERROR(TakeConfig(files.config, folder, *tables));
  for (const std::string& piece : tables->pieces) {
    tables->hash = internal::StableHash(piece, tables->hash);
  }
  DT_RETURN_IF_ERROR(TakeSpm(files.source_spm, folder + "/" + kSourceFile, *tables));
  DT_RETURN_IF_ERROR(TakeSpm(files.target_spm, folder + "/" + kTargetFile, *tables));
  return MarianTokenizer(tables);
}

std::string MarianTokenizer::Decode(std::span<const int32_t> ids) const {
  std::vector<std::string> pieces;
  for (const int32_t id : ids) {
    const std::string_view piece = Piece(id);
    if (!tables_->is_special[static_cast<size_t>(id)]) pieces.emplace_back(piece);
  }
  // transformers decodes with the model of the sources, which may not have a piece of the targets.
  const std::string decoded = tables_->spm(MarianSide::kSource).model.DecodePieces(pieces);
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

std::string_view MarianTokenizer::Piece(int32_t id) const {
  DT_CHECK(id >= 0 && id < vocab_size()) << "id " << id << " of " << vocab_size();
  return tables_->pieces[static_cast<size_t>(id)];
}

int32_t MarianTokenizer::IdOf(std::string_view piece) const { return tables_->IdOr(piece, -1); }
int32_t MarianTokenizer::vocab_size() const { return static_cast<int32_t>(tables_->pieces.size()); }
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
  UnigramEncoder& encoder = scratch_->encoders[static_cast<size_t>(side)];
  if (const size_t end = part.find("<<"); part.starts_with(">>") && end != std::string_view::npos) {
    ids.push_back(tables.IdOr(part.substr(0, end + 2), tables.unk_id));
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
  // What this model does not know may be a piece of the other one.
  own.clear();
  scratch_->pieces.clear();
  encoder.EncodePieces(part, own, scratch_->pieces);
  for (size_t i = 0; i < own.size(); ++i) {
    ids.push_back(own[i] == unknown ? tables.IdOr(scratch_->pieces[i], tables.unk_id)
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
