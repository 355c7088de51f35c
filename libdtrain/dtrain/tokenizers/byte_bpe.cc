// byte_bpe.cc - reads byte-level BPE models, and encodes words, texts and rows.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/byte_bpe.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/internal/hash.h"
#include "dtrain/tokenizers/internal/added_tokens.h"
#include "dtrain/tokenizers/internal/byte_bpe_tables.h"
#include "dtrain/tokenizers/internal/byte_level.h"
#include "dtrain/tokenizers/internal/composition.h"
#include "dtrain/tokenizers/internal/merges_files.h"
#include "dtrain/tokenizers/internal/pair_merging.h"
#include "dtrain/tokenizers/internal/rows.h"
#include "dtrain/tokenizers/internal/tokenizer_file.h"
#include "dtrain/tokenizers/internal/word_cache.h"

namespace dtrain {
namespace internal {

struct ByteBpeScratch {
  explicit ByteBpeScratch(size_t cache_bytes) : cache(cache_bytes) {}
  MergeScratch merge;
  WordCache cache;
  std::string valid;
  std::string spaced;
  std::string composed;
};

namespace {

using Json = nlohmann::json;

Status Unknown(const TokenizerFile& file, const std::string& part, const std::string& type,
               const char* known) {
  return DataError(absl::StrFormat("%s: %s %s is not known to byte-level BPE; known is %s",
                                   file.name, part, Printable(type), known));
}

Status ReadNormalizer(const Json& normalizer, const TokenizerFile& file, ByteBpeTables& tables) {
  const std::string type = TypeOf(normalizer);
  if (type == "Sequence") {
    for (const Json& part : normalizer.value("normalizers", Json::array())) {
      DT_RETURN_IF_ERROR(ReadNormalizer(part, file, tables));
    }
    return OkStatus();
  }
  if (type == "NFC") tables.composes = true;
  return type.empty() || type == "NFC" ? OkStatus() : Unknown(file, "normalizer", type, "NFC");
}

Status ReadPreTokenizer(const TokenizerFile& file, ByteBpeTables& tables) {
  const std::string type = TypeOf(file.pre_tokenizer);
  if (type != "ByteLevel") {
    return Unknown(file, "pre_tokenizer", type.empty() ? "null" : type, "ByteLevel");
  }
  const Json adds_space = file.pre_tokenizer.value("add_prefix_space", Json());
  const Json splits_words = file.pre_tokenizer.value("use_regex", Json());
  tables.adds_space = !adds_space.is_boolean() || adds_space.get<bool>();
  tables.splits_words = !splits_words.is_boolean() || splits_words.get<bool>();
  return OkStatus();
}

// Fields that change ids and that no model of these families has.
Status CheckModel(const TokenizerFile& file) {
  const Json type = file.model.value("type", Json());
  if (type != "BPE" && !(type.is_null() && file.model.contains("merges"))) {
    return DataError(absl::StrFormat("%s: its model is no BPE but %s", file.name,
                                     Printable(type.is_string() ? type.get<std::string>() : "?")));
  }
  for (const char* const field : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"}) {
    const Json value = file.model.value(field, Json());
    if (!value.is_null() && value != "" && value != 0.0) {
      return DataError(
          absl::StrFormat("%s: model.%s is set, which byte-level BPE has not", file.name, field));
    }
  }
  return OkStatus();
}

// Both sides of a merge: ["a", "b"], or "a b" in older files.
std::optional<std::pair<std::string, std::string>> SidesOf(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
  }
  if (!merge.is_string()) return std::nullopt;
  const auto& text = merge.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    return std::nullopt;
  }
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

Status ReadMerges(const TokenizerFile& file, ByteBpeTables& tables) {
  const Json merges = file.model.value("merges", Json());
  if (!merges.is_array()) return DataError(file.name + ": model.merges is no list");
  tables.merges = PairTable(merges.size());
  const auto id_of = [&](const std::string& piece) {
    const auto found = tables.id_of.find(piece);
    return found == tables.id_of.end() ? kNoSymbol : found->second;
  };
  // Of a pair that is listed twice the later rank counts.
  for (size_t rank = merges.size(); rank-- > 0;) {
    const auto sides = SidesOf(merges[rank]);
    if (!sides) {
      return DataError(
          absl::StrFormat("%s: model.merges[%d] is no pair of pieces", file.name, rank));
    }
    const int32_t left = id_of(sides->first);
    const int32_t right = id_of(sides->second);
    const int32_t merged = id_of(sides->first + sides->second);
    if (left < 0 || right < 0 || merged < 0) {
      return DataError(absl::StrFormat(
          "%s: model.merges[%d]: \"%s\" and \"%s\" are not both pieces, or not their join",
          file.name, rank, Printable(sides->first), Printable(sides->second)));
    }
    if (tables.merges.Find(left, right) == nullptr) {
      tables.merges.Insert(left, right, merged, static_cast<uint32_t>(rank));
    }
  }
  return OkStatus();
}

void ReadBytes(ByteBpeTables& tables) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    AppendUtf8(CharacterOfByte(static_cast<uint8_t>(byte)), character);
    const auto found = tables.id_of.find(character);
    tables.byte_ids[static_cast<size_t>(byte)] =
        found == tables.id_of.end() ? tables.unk_id : found->second;
  }
}

void ReadAddedTokens(const TokenizerFile& file, ByteBpeTables& tables) {
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (const AddedToken& token : file.added_tokens) {
    (token.is_normalized ? normalized : raw).push_back(token);
    tables.texts[static_cast<size_t>(token.id)] = token.content;
    if (token.is_normalized && tables.composes) {
      normalized.back().content = Compose(token.content);
    }
  }
  tables.added_tokens = AddedTokens(raw, normalized);
}

}  // namespace

void MergeWord(const ByteBpeTables& tables, std::string_view word, MergeScratch& scratch) {
  std::vector<MergeScratch::Symbol>& symbols = scratch.symbols;
  symbols.clear();
  if (tables.ignores_merges) {
    if (const auto whole = tables.id_of_text.find(word); whole != tables.id_of_text.end()) {
      symbols.push_back({whole->second, -1, -1, 0, static_cast<uint32_t>(word.size())});
      return;
    }
  }
  for (size_t i = 0; i < word.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    symbols.push_back({tables.byte_ids[static_cast<uint8_t>(word[i])], index - 1, index + 1,
                       static_cast<uint32_t>(i), 1});
  }
  symbols.back().next = -1;
  MergeSymbols(tables.merges, nullptr, scratch);
}

}  // namespace internal

ByteBpeTokenizer::ByteBpeTokenizer(std::shared_ptr<const internal::ByteBpeTables> tables)
    : tables_(std::move(tables)) {}

StatusOr<ByteBpeTokenizer> ByteBpeTokenizer::Load(const std::string& path) {
  if (internal::IsMergesVocabulary(path)) {
    DT_ASSIGN_OR_RETURN(const internal::MergesFiles files, internal::ReadMergesFiles(path));
    return FromMerges(files);
  }
  const StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return DataError(text.status().message());
  return FromJson(*text, path);
}

StatusOr<ByteBpeTokenizer> ByteBpeTokenizer::FromJson(std::string_view text,
                                                      const std::string& name) {
  DT_ASSIGN_OR_RETURN(const internal::TokenizerFile file, internal::ParseTokenizerFile(text, name));
  return FromFile(file, internal::StableHash(text, internal::StableHash("byte-level BPE")));
}

StatusOr<ByteBpeTokenizer> ByteBpeTokenizer::FromMerges(const internal::MergesFiles& files) {
  DT_ASSIGN_OR_RETURN(const internal::TokenizerFile file, internal::ConvertMergesFiles(files));
  uint64_t hash = internal::StableHash(files.pieces, internal::StableHash("pieces and merges"));
  hash = internal::StableHash(files.merges, hash);
  // Of the settings only what decides ids.
  hash = internal::StableHash(internal::JsonText(file.pre_tokenizer), hash);
  for (const internal::AddedToken& token : file.added_tokens) {
    const bool flags[] = {token.single_word, token.strips_left, token.strips_right,
                          token.is_special, token.is_normalized};
    hash = internal::MixHash(internal::StableHash(token.content, hash),
                             static_cast<uint64_t>(token.id));
    for (const bool flag : flags) hash = internal::MixHash(hash, flag ? 1 : 0);
  }
  for (const internal::RowPart& part : file.single) {
    hash = internal::MixHash(hash, static_cast<uint64_t>(part.special_id) + 1);
  }
  return FromFile(file, hash);
}

StatusOr<ByteBpeTokenizer> ByteBpeTokenizer::FromFile(const internal::TokenizerFile& file,
                                                      uint64_t hash) {
  DT_RETURN_IF_ERROR(internal::CheckModel(file));
  auto tables = std::make_shared<internal::ByteBpeTables>();
  tables->hash = hash;
  DT_RETURN_IF_ERROR(internal::ReadNormalizer(file.normalizer, file, *tables));
  DT_RETURN_IF_ERROR(internal::ReadPreTokenizer(file, *tables));
  DT_ASSIGN_OR_RETURN(tables->pieces,
                      internal::PiecesOf(file.model.value("vocab", nlohmann::json()), file));
  const size_t vocabulary_size = tables->pieces.size();
  DT_RETURN_IF_ERROR(internal::CheckIds(file, vocabulary_size));
  internal::AddSpecialPieces(file, tables->pieces);
  tables->texts.resize(tables->pieces.size());
  for (size_t id = 0; id < tables->pieces.size(); ++id) {
    const std::string& piece = tables->pieces[id];
    if (!piece.empty()) tables->id_of.emplace(piece, static_cast<int32_t>(id));
    tables->texts[id] =
        id < vocabulary_size ? internal::BytesOfPiece(piece).value_or(piece) : piece;
  }
  if (const auto unk = file.model.value("unk_token", nlohmann::json()); unk.is_string()) {
    tables->unk_id = ByteBpeTokenizer(tables).IdOf(unk.get<std::string>());
  }
  DT_RETURN_IF_ERROR(internal::ReadMerges(file, *tables));
  internal::ReadBytes(*tables);
  tables->single = file.single;
  tables->pair = file.pair;
  internal::ReadAddedTokens(file, *tables);
  const auto ignores = file.model.value("ignore_merges", nlohmann::json());
  tables->ignores_merges = ignores.is_boolean() && ignores.get<bool>();
  if (tables->ignores_merges) {
    for (size_t id = 0; id < vocabulary_size; ++id) {
      tables->id_of_text.emplace(tables->texts[id], static_cast<int32_t>(id));
    }
  }
  return ByteBpeTokenizer(std::move(tables));
}

std::string ByteBpeTokenizer::Decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    DT_CHECK(id >= 0 && id < vocab_size()) << "id " << id << " of " << vocab_size();
    text += tables_->texts[static_cast<size_t>(id)];
  }
  return text;
}

std::string_view ByteBpeTokenizer::Piece(int32_t id) const {
  DT_CHECK(id >= 0 && id < vocab_size()) << "id " << id << " of " << vocab_size();
  return tables_->pieces[static_cast<size_t>(id)];
}

int32_t ByteBpeTokenizer::IdOf(std::string_view piece) const {
  const auto found = tables_->id_of.find(piece);
  return found == tables_->id_of.end() ? -1 : found->second;
}

uint64_t ByteBpeTokenizer::Hash() const { return tables_->hash; }
int32_t ByteBpeTokenizer::unk_id() const { return tables_->unk_id; }
const std::vector<internal::RowPart>& ByteBpeTokenizer::row(bool of_pair) const {
  return of_pair ? tables_->pair : tables_->single;
}

int32_t ByteBpeTokenizer::vocab_size() const {
  return static_cast<int32_t>(tables_->pieces.size());
}

ByteBpeEncoder::ByteBpeEncoder(ByteBpeTokenizer tokenizer, size_t cache_bytes,
                               bool match_special_tokens)
    : tokenizer_(std::move(tokenizer)),
      match_special_tokens_(match_special_tokens),
      scratch_(std::make_unique<internal::ByteBpeScratch>(cache_bytes)) {}
ByteBpeEncoder::ByteBpeEncoder(ByteBpeEncoder&&) noexcept = default;
ByteBpeEncoder& ByteBpeEncoder::operator=(ByteBpeEncoder&&) noexcept = default;
ByteBpeEncoder::~ByteBpeEncoder() = default;

void ByteBpeEncoder::MergeWord(std::string_view word, std::vector<int32_t>& ids) {
  const std::vector<internal::MergeScratch::Symbol>& symbols = scratch_->merge.symbols;
  internal::MergeWord(*tokenizer_.tables_, word, scratch_->merge);
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
    const int32_t id = symbols[static_cast<size_t>(i)].symbol;
    if (id >= 0) ids.push_back(id);
  }
}

void ByteBpeEncoder::EncodeWord(std::string_view word, std::vector<int32_t>& ids) {
  if (word.size() > internal::WordCache::kMaxWordBytes) return MergeWord(word, ids);
  uint64_t& packed = scratch_->cache.Lookup(word);
  if (packed != 0) {
    const std::span<const int32_t> cached = scratch_->cache.Ids(packed);
    ids.insert(ids.end(), cached.begin(), cached.end());
    return;
  }
  const size_t begin = ids.size();
  MergeWord(word, ids);
  scratch_->cache.Store(std::span(ids).subspan(begin), packed);
}

void ByteBpeEncoder::EncodeWords(std::string_view part, std::vector<int32_t>& ids) {
  const internal::ByteBpeTables& tables = *tokenizer_.tables_;
  if (tables.adds_space && part.front() != ' ') {
    scratch_->spaced.assign(" ").append(part);
    part = scratch_->spaced;
  }
  if (!tables.splits_words) return EncodeWord(part, ids);
  while (!part.empty()) {
    const size_t size = internal::NextWord(part);
    EncodeWord(part.substr(0, size), ids);
    part.remove_prefix(size);
  }
}

void ByteBpeEncoder::Encode(std::string_view text, std::vector<int32_t>& ids) {
  const internal::ByteBpeTables& tables = *tokenizer_.tables_;
  DT_CHECK_LT(text.size(), size_t{INT32_MAX}) << "a text must be shorter than 2 GiB";
  if (!IsValidUtf8(text)) {
    scratch_->valid = MendInvalidUtf8(text, InvalidText::kReplace);
    text = scratch_->valid;
  }
  const auto take = [&](int32_t id) { ids.push_back(id); };
  const auto& matchers = tables.added_tokens.matchers(match_special_tokens_);
  matchers.raw.Split(
      text,
      [&](std::string_view part) {
        if (tables.composes && internal::MayCompose(part)) {
          scratch_->composed = internal::Compose(part);
          part = scratch_->composed;
        }
        matchers.normalized.Split(
            part, [&](std::string_view words) { EncodeWords(words, ids); }, take);
      },
      take);
}

void ByteBpeEncoder::EncodeRow(std::string_view first, std::optional<std::string_view> second,
                               int max_length, std::vector<int32_t>& ids,
                               std::vector<int32_t>& types) {
  const internal::ByteBpeTables& tables = *tokenizer_.tables_;
  const std::vector<internal::RowPart>& parts = second ? tables.pair : tables.single;
  std::array<std::vector<int32_t>, 2> texts;
  Encode(first, texts[0]);
  if (second) Encode(*second, texts[1]);
  internal::MakeRow(parts, std::move(texts), max_length, ids, types);
}

}  // namespace dtrain
