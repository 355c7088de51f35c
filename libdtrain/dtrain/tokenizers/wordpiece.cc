// wordpiece.cc - reads and checks vocabularies, and decodes ids.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/wordpiece.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/status.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/internal/hash.h"
#include "dtrain/tokenizers/internal/tokenizer_file.h"
#include "dtrain/tokenizers/internal/wordpiece_tables.h"

namespace dtrain {
namespace internal {
namespace {

// Version of the rules and their Unicode tables. A new number invalidates old hashes.
constexpr uint64_t kRulesVersion = 1;

uint64_t HashOf(const std::vector<std::string>& pieces, const WordPieceOptions& options) {
  uint64_t hash = StableHash("WordPiece", kRulesVersion);
  for (const uint64_t option :
       {static_cast<uint64_t>(options.behavior), static_cast<uint64_t>(options.lower_case),
        static_cast<uint64_t>(*options.strip_accents), static_cast<uint64_t>(options.split_cjk),
        static_cast<uint64_t>(options.max_word_chars),
        static_cast<uint64_t>(*options.match_special_tokens)}) {
    hash = MixHash(hash, option);
  }
  for (const std::string& piece : pieces) hash = StableHash(piece, hash);
  return hash;
}

}  // namespace

CharacterRules RulesOf(const WordPieceOptions& resolved) {
  return {.hugging_face = resolved.behavior == WordPieceBehavior::kHuggingFace,
          .lower_case = resolved.lower_case,
          .strip_accents = *resolved.strip_accents,
          .split_cjk = resolved.split_cjk};
}

WordPieceTables::WordPieceTables(std::vector<std::string> all_pieces,
                                 const WordPieceOptions& resolved)
    : pieces(std::move(all_pieces)),
      options(resolved),
      characters(RulesOf(resolved)),
      trie(pieces, static_cast<size_t>(resolved.max_word_chars) * 4),
      hash(HashOf(pieces, resolved)) {
  ids.reserve(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) ids.emplace(pieces[i], static_cast<int32_t>(i));
  for (size_t i = 0; i < kNumSpecialTokens; ++i) {
    const auto found = ids.find(kSpecialTokens[i]);
    special_ids[i] = found == ids.end() ? -1 : found->second;
  }
  byte_classes.fill(ByteClass::kOther);
  for (uint32_t c = 0; c < 128; ++c) {
    const CharacterAction action = characters.Action(c);
    const char target = static_cast<char>(action.TargetOf(c));
    if (action.kind() == CharacterKind::kLetter) {
      byte_classes[c] = ByteClass::kWord;
      lower_bytes[c] = target;
    } else if (action.kind() == CharacterKind::kPunctuation) {
      byte_classes[c] = ByteClass::kPunctuation;
      std::vector<int32_t> id;
      EncodeWord({&target, 1}, 1, id);
      punctuation_ids[c] = id[0];
    } else if (action.kind() == CharacterKind::kSpace) {
      byte_classes[c] = ByteClass::kSpace;
    }
  }
}

size_t WordPieceTables::SpecialTokenAt(std::string_view text) const {
  for (size_t i = 0; i < kNumSpecialTokens; ++i) {
    if (special_ids[i] >= 0 && text.starts_with(kSpecialTokens[i])) return i;
  }
  return kNumSpecialTokens;
}

}  // namespace internal

namespace {

constexpr int kMaxWordChars = 1000;

StatusOr<WordPieceOptions> Resolve(WordPieceOptions options) {
  const bool hugging_face = options.behavior == WordPieceBehavior::kHuggingFace;
  if (options.max_word_chars < 0 || options.max_word_chars > kMaxWordChars) {
    return UsageError(
        absl::StrFormat("max_word_chars is %d; it must be from 1 to %d, or 0 for the "
                        "default",
                        options.max_word_chars, kMaxWordChars));
  }
  if (options.max_word_chars == 0) options.max_word_chars = hugging_face ? 100 : 200;
  if (!options.strip_accents) options.strip_accents = options.lower_case;
  if (!options.match_special_tokens) options.match_special_tokens = hugging_face;
  return options;
}

// Describes the problem of one line; empty if there is none.
std::string ProblemOf(std::string_view piece, bool is_first) {
  if (piece.ends_with('\r')) {
    return "ends with CR LF; convert the file to Unix lines, for example with dos2unix";
  }
  if (piece.empty()) return "is empty; a vocabulary has one piece per line";
  if (!IsValidUtf8(piece)) {
    return "is not UTF-8; re-encode the file, for example with iconv";
  }
  if (is_first && piece.starts_with("\xEF\xBB\xBF")) {
    return "begins with a byte order mark, which would be part of its piece; remove it";
  }
  if (piece.find('\0') != std::string_view::npos) {
    return "has a NUL byte; this is not a text file";
  }
  if (piece.find_first_of(" \t") != std::string_view::npos) {
    return "has a space or a tab; a vocabulary has one piece per line and nothing else";
  }
  return {};
}

Status CheckPieces(const std::vector<std::string>& pieces) {
  std::unordered_map<std::string_view, size_t> lines;
  lines.reserve(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (const std::string problem = ProblemOf(pieces[i], i == 0); !problem.empty()) {
      return DataError(absl::StrFormat("line %d %s", i + 1, problem));
    }
    const auto [first, is_new] = lines.emplace(pieces[i], i + 1);
    if (!is_new) {
      return DataError(absl::StrFormat(
          "line %d repeats the piece '%.60s' of line %d; each piece must have only one id", i + 1,
          pieces[i], first->second));
    }
  }
  if (pieces.empty()) return DataError("the vocabulary is empty");
  for (const size_t i : {internal::kUnk, internal::kCls, internal::kSep}) {
    const std::string_view token = internal::kSpecialTokens[i];
    if (!lines.contains(token)) {
      return DataError(absl::StrFormat(
          "none of its %d lines is %s; BERT's vocabularies have [UNK], [CLS] and [SEP]",
          pieces.size(), token));
    }
  }
  return OkStatus();
}

// What the file says of texts, words and rows must be what WordPiece here does: ids would silently
// differ otherwise. Capitals and accents are options (WordPieceSettingsOf()).
Status CheckTokenizerFile(const internal::TokenizerFile& file, const nlohmann::json& vocabulary) {
  const auto is_set = [](const nlohmann::json& part, const char* key,
                         const nlohmann::json& expected) {
    const nlohmann::json value =
        part.is_object() ? part.value(key, nlohmann::json()) : nlohmann::json();
    return !value.is_null() && value != expected;
  };
  const auto refuse = [&](const std::string& what) {
    return DataError(
        absl::StrFormat("%s: %s, which WordPiece here does not know", file.name, what));
  };
  const std::string normalizer = internal::TypeOf(file.normalizer);
  if (!normalizer.empty() && normalizer != "BertNormalizer") {
    return refuse("its normalizer is " + Printable(normalizer));
  }
  for (const char* const key : {"clean_text", "handle_chinese_chars"}) {
    if (is_set(file.normalizer, key, true)) {
      return refuse(absl::StrFormat("normalizer.%s is not true", key));
    }
  }
  const std::string pre_tokenizer = internal::TypeOf(file.pre_tokenizer);
  if (!pre_tokenizer.empty() && pre_tokenizer != "BertPreTokenizer") {
    return refuse("its pre_tokenizer is " + Printable(pre_tokenizer));
  }
  const std::pair<const char*, nlohmann::json> model[] = {{"unk_token", "[UNK]"},
                                                          {"continuing_subword_prefix", "##"},
                                                          {"max_input_chars_per_word", 100}};
  for (const auto& [key, expected] : model) {
    if (is_set(file.model, key, expected)) {
      return refuse(absl::StrFormat("model.%s is not %s", key, internal::JsonText(expected)));
    }
  }
  for (const internal::AddedToken& token : file.added_tokens) {
    const bool is_known = std::ranges::find(internal::kSpecialTokens, token.content) !=
                              std::end(internal::kSpecialTokens) &&
                          vocabulary.value(token.content, nlohmann::json()) == token.id;
    if (!is_known) {
      return refuse(absl::StrFormat("added_tokens has \"%s\" with the id %d",
                                    Printable(token.content), token.id));
    }
  }
  return OkStatus();
}

// The vocabulary of a tokenizer.json as the text of a vocab.txt.
StatusOr<std::string> VocabularyOfJson(const std::string& content, const std::string& path) {
  using Json = nlohmann::json;
  const Json root = internal::ParseJson<Json>(content);
  const Json model = root.is_object() ? root.value("model", Json()) : Json();
  const Json vocab = model.is_object() ? model.value("vocab", Json()) : Json();
  if (!vocab.is_object() || model.value("type", "") != "WordPiece") {
    return DataError(path + ": its model is no WordPiece; give the vocab.txt of a BERT");
  }
  DT_ASSIGN_OR_RETURN(const internal::TokenizerFile file,
                      internal::ParseTokenizerFile(content, path));
  DT_RETURN_IF_ERROR(CheckTokenizerFile(file, vocab));
  std::vector<std::string> pieces(vocab.size());
  for (const auto& [piece, id] : vocab.items()) {
    const int64_t place = id.is_number_integer() ? id.get<int64_t>() : -1;
    const bool fits = place >= 0 && place < static_cast<int64_t>(pieces.size()) &&
                      pieces[static_cast<size_t>(place)].empty() && !piece.empty() &&
                      piece.find_first_of("\r\n") == std::string::npos;
    if (!fits) {
      return DataError(absl::StrFormat("%s: piece \"%s\" has the id %s; ids are 0 to %d, each once",
                                       path, Printable(piece), internal::JsonText(id),
                                       pieces.size() - 1));
    }
    pieces[static_cast<size_t>(place)] = piece;
  }
  std::string text;
  for (const std::string& piece : pieces) text += piece + "\n";
  return text;
}

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

StatusOr<std::string> ReadVocabularyText(const std::string& path) {
  StatusOr<std::string> content = ReadWholeFile(path);
  if (!content.ok()) return DataError(content.status().message());
  return path.ends_with(".json") ? VocabularyOfJson(*content, path) : content;
}

StatusOr<WordPieceSettings> ReadWordPieceSettings(const std::string& path) {
  const StatusOr<std::string> content = ReadWholeFile(path);
  if (!content.ok()) return DataError(content.status().message());
  DT_ASSIGN_OR_RETURN(const internal::TokenizerFile file,
                      internal::ParseTokenizerFile(*content, path));
  const auto flag = [&](const char* key) -> std::optional<bool> {
    const nlohmann::json value = file.normalizer.is_object()
                                     ? file.normalizer.value(key, nlohmann::json())
                                     : nlohmann::json();
    return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
  };
  return WordPieceSettings{.lower_case = flag("lowercase"), .strip_accents = flag("strip_accents")};
}

WordPieceTokenizer::WordPieceTokenizer(std::shared_ptr<const internal::WordPieceTables> tables)
    : tables_(std::move(tables)) {}

StatusOr<WordPieceTokenizer> WordPieceTokenizer::FromVocabulary(std::vector<std::string> pieces,
                                                                const WordPieceOptions& options) {
  DT_ASSIGN_OR_RETURN(const WordPieceOptions resolved, Resolve(options));
  DT_RETURN_IF_ERROR(CheckPieces(pieces));
  return WordPieceTokenizer(
      std::make_shared<const internal::WordPieceTables>(std::move(pieces), resolved));
}

StatusOr<WordPieceTokenizer> WordPieceTokenizer::Load(const std::string& path,
                                                      const WordPieceOptions& options) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return DataError(
        absl::StrFormat("%s: is a folder, not a vocabulary; give the vocab.txt in it", path));
  }
  DT_ASSIGN_OR_RETURN(const std::string content, ReadVocabularyText(path));
  StatusOr<WordPieceTokenizer> tokenizer = FromVocabulary(SplitLines(content), options);
  if (!tokenizer.ok() && tokenizer.status().code() == ExitCode::kData) {
    return Annotate(tokenizer.status(), path);
  }
  return tokenizer;
}

void WordPieceTokenizer::Encode(std::string_view text, std::vector<int32_t>& ids) const {
  WordPieceEncoder(*this, 0).Encode(text, ids);
}

std::vector<int32_t> WordPieceTokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> ids;
  Encode(text, ids);
  return ids;
}

std::vector<std::string> WordPieceTokenizer::EncodePieces(std::string_view text) const {
  std::vector<std::string> pieces;
  for (const int32_t id : Encode(text)) pieces.emplace_back(Piece(id));
  return pieces;
}

std::vector<std::string> WordPieceTokenizer::Words(std::string_view text) const {
  internal::WordList list;
  internal::SplitWords(tables_->characters, text, list);
  std::vector<std::string> words;
  for (const internal::WordList::Word& word : list.words) words.emplace_back(list.word(word));
  return words;
}

std::string WordPieceTokenizer::Decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    std::string_view piece = Piece(id);
    if (piece.size() > 2 && piece.starts_with("##") && !text.empty()) {
      piece.remove_prefix(2);
    } else if (!text.empty()) {
      text += ' ';
    }
    text += piece;
  }
  return text;
}

std::string_view WordPieceTokenizer::Piece(int32_t id) const {
  DT_CHECK_GE(id, 0);
  DT_CHECK_LT(id, vocab_size());
  return tables_->pieces[static_cast<size_t>(id)];
}

int32_t WordPieceTokenizer::IdOf(std::string_view piece) const {
  const auto found = tables_->ids.find(piece);
  return found == tables_->ids.end() ? -1 : found->second;
}

int32_t WordPieceTokenizer::vocab_size() const {
  return static_cast<int32_t>(tables_->pieces.size());
}
int32_t WordPieceTokenizer::unk_id() const { return tables_->special_ids[internal::kUnk]; }
int32_t WordPieceTokenizer::cls_id() const { return tables_->special_ids[internal::kCls]; }
int32_t WordPieceTokenizer::sep_id() const { return tables_->special_ids[internal::kSep]; }
int32_t WordPieceTokenizer::pad_id() const { return tables_->special_ids[internal::kPad]; }
int32_t WordPieceTokenizer::mask_id() const { return tables_->special_ids[internal::kMask]; }
const WordPieceOptions& WordPieceTokenizer::options() const { return tables_->options; }
uint64_t WordPieceTokenizer::Hash() const { return tables_->hash; }

}  // namespace dtrain
