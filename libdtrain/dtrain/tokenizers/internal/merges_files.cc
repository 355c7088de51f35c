// merges_files.cc - reads vocab.json, merges.txt and the settings beside them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/merges_files.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/tokenizers/internal/byte_level.h"

namespace dtrain::internal {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// Special tokens by their keys, in the order in which transformers adds those that are not pieces.
constexpr std::pair<const char*, const char*> kNamedTokens[] = {
    {"bos_token", "<s>"},   {"eos_token", "</s>"}, {"unk_token", "<unk>"},  {"sep_token", "</s>"},
    {"pad_token", "<pad>"}, {"cls_token", "<s>"},  {"mask_token", "<mask>"}};

// Tokenizers that read such folders as RobertaTokenizer does.
constexpr std::string_view kClasses[] = {"RobertaTokenizer", "RobertaTokenizerFast"};

std::string PathOf(const MergesFiles& files, const char* name) {
  return files.folder.empty() ? name : files.folder + "/" + name;
}

Status ReadIfThere(const fs::path& path, std::string& text) {
  std::error_code error;
  if (!fs::exists(path, error)) return OkStatus();
  StatusOr<std::string> read = ReadWholeFile(path);
  if (!read.ok()) return DataError(read.status().message());
  text = *std::move(read);
  return OkStatus();
}

// An empty object where the file is not there.
StatusOr<Json> ParseObject(const std::string& text, const std::string& name) {
  if (text.empty()) return Json::object();
  Json json = ParseJson<Json>(text);
  if (!json.is_object()) return DataError(name + ": is no JSON object, or it is cut");
  return json;
}

// --- merges.txt ---

// Whether merges make all pieces but a few. Each piece of several bytes is made by a merge, except
// those that somebody wrote into vocab.json, such as "madeupword0000".
Status CheckIsWhole(const std::vector<std::string>& pieces,
                    const std::unordered_set<std::string_view>& made, const std::string& name) {
  size_t longer = 0;
  size_t missing = 0;
  for (const std::string& piece : pieces) {
    const std::optional<std::string> bytes = BytesOfPiece(piece);
    if (!bytes || bytes->size() < 2) continue;
    ++longer;
    if (!made.contains(piece)) ++missing;
  }
  constexpr size_t kWritten = 16;
  if (missing <= std::max(kWritten, longer / 100)) return OkStatus();
  return DataError(
      absl::StrFormat("%s: makes only %d of the %d pieces of several bytes in %s: it is cut, or "
                      "belongs to another vocabulary",
                      name, longer - missing, longer, kPiecesFile));
}

// [["a", "b"], ...] in the order of the lines.
StatusOr<Json> MergesOf(std::string_view text, const std::vector<std::string>& pieces,
                        const std::string& name) {
  const std::unordered_set<std::string_view> known(pieces.begin(), pieces.end());
  std::unordered_set<std::string_view> made;
  Json merges = Json::array();
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      return DataError(absl::StrFormat("%s:%d: \"%s\" is no pair of pieces", name, number,
                                       Printable(std::string(line))));
    }
    const std::string left(line.substr(0, space));
    const std::string right(line.substr(space + 1));
    for (const std::string& piece : {left, right, left + right}) {
      if (known.contains(piece)) continue;
      return DataError(absl::StrFormat("%s:%d: \"%s\" is no piece of %s", name, number,
                                       Printable(piece), kPiecesFile));
    }
    made.insert(*known.find(left + right));
    merges.push_back({left, right});
  }
  DT_RETURN_IF_ERROR(CheckIsWhole(pieces, made, name));
  return merges;
}

// --- added tokens ---

// A token of a settings file, which is a text or an object; nothing for null.
StatusOr<std::optional<AddedToken>> TokenOf(const Json& value, const std::string& where) {
  if (value.is_null()) return std::optional<AddedToken>();
  if (value.is_string()) {
    return std::optional(AddedToken{.content = value.get<std::string>(), .is_special = true});
  }
  const Json& content = FieldOf(value, "content");
  if (!content.is_string()) return DataError(where + " is no token");
  const auto flag = [&](const char* key, bool otherwise) {
    const Json& field = FieldOf(value, key);
    return field.is_boolean() ? field.get<bool>() : otherwise;
  };
  const bool special = flag("special", false);
  return std::optional(AddedToken{.content = content.get<std::string>(),
                                  .single_word = flag("single_word", false),
                                  .strips_left = flag("lstrip", false),
                                  .strips_right = flag("rstrip", false),
                                  .is_special = special,
                                  .is_normalized = flag("normalized", !special)});
}

// What the settings files say of tokens.
struct TokenSettings {
  std::map<std::string, std::optional<AddedToken>> named;  // by key, "mask_token"
  std::vector<AddedToken> others;                          // without a key
  std::vector<AddedToken> with_ids;                        // in the order of their ids
};

// Keys that name a token in any model, or end like these.
bool NamesToken(const std::string& key, const Json& value) {
  return key.ends_with("_token") && (value.is_string() || value.is_object() || value.is_null());
}

Status ReadOthers(const Json& list, const std::string& where, std::vector<AddedToken>& tokens) {
  for (const Json& entry : list) {
    DT_ASSIGN_OR_RETURN(const auto token, TokenOf(entry, where));
    if (token) tokens.push_back(*token);
  }
  return OkStatus();
}

// The keys that both files with names may have. A file that is read later counts more.
Status ReadNamed(const Json& file, const std::string& name, bool are_special,
                 TokenSettings& settings) {
  for (const auto& [key, value] : file.items()) {
    if (!NamesToken(key, value)) continue;
    Json entry = value;
    // special_tokens_map.json does not say that its tokens are special, and takes flags as
    // AddedToken(..., special=True) does.
    if (are_special && entry.is_object()) entry["special"] = true;
    DT_ASSIGN_OR_RETURN(settings.named[key], TokenOf(entry, name + ": " + Printable(key)));
  }
  for (const char* const key : {"extra_special_tokens", "additional_special_tokens"}) {
    const Json& list = FieldOf(file, key);
    if (!list.is_array() || !settings.others.empty()) continue;
    DT_RETURN_IF_ERROR(ReadOthers(list, absl::StrFormat("%s: %s", name, key), settings.others));
  }
  return OkStatus();
}

// added_tokens_decoder: {"50264": {content, ...}}.
Status ReadDecoder(const Json& decoder, const std::string& name, TokenSettings& settings) {
  std::map<int64_t, AddedToken> by_id;
  for (const auto& [key, value] : decoder.items()) {
    int32_t id = 0;
    DT_ASSIGN_OR_RETURN(const auto token,
                        TokenOf(value, name + ": added_tokens_decoder: " + Printable(key)));
    if (!absl::SimpleAtoi(key, &id) || id < 0 || !token) {
      return DataError(name + ": added_tokens_decoder: " + Printable(key) + " is no id");
    }
    by_id[id] = *token;
    by_id[id].id = id;
  }
  for (auto& [id, token] : by_id) settings.with_ids.push_back(std::move(token));
  return OkStatus();
}

// added_tokens.json: {"<ent>": 50265}. Special are those that another file names.
Status ReadTokenSettings(const Json& tokens, const std::string& name, TokenSettings& settings) {
  std::unordered_set<std::string> special;
  for (const auto& [key, token] : settings.named) {
    const bool is_usual = std::ranges::any_of(
        kNamedTokens, [&key = key](const auto& usual) { return key == usual.first; });
    if (token && is_usual) special.insert(token->content);
  }
  for (const AddedToken& token : settings.others) special.insert(token.content);
  std::map<int64_t, AddedToken> by_id;
  for (const auto& [content, value] : tokens.items()) {
    const int64_t id = value.is_number_integer() ? value.get<int64_t>() : -1;
    if (id < 0 || id > INT32_MAX - 1 || by_id.contains(id)) {
      return DataError(absl::StrFormat("%s: \"%s\" has the id %s, which is none or another token's",
                                       name, Printable(content), JsonText(value)));
    }
    const bool is_special = special.contains(content);
    by_id[id] = {.content = content,
                 .id = static_cast<int32_t>(id),
                 .is_special = is_special,
                 .is_normalized = !is_special};
  }
  for (auto& [id, token] : by_id) settings.with_ids.push_back(std::move(token));
  return OkStatus();
}

StatusOr<TokenSettings> ReadTokens(const MergesFiles& files, const Json& settings) {
  TokenSettings tokens;
  const std::string name = PathOf(files, kSettingsFile);
  DT_RETURN_IF_ERROR(ReadNamed(settings, name, false, tokens));
  if (const Json& decoder = FieldOf(settings, "added_tokens_decoder"); decoder.is_object()) {
    DT_RETURN_IF_ERROR(ReadDecoder(decoder, name, tokens));
    return tokens;
  }
  const std::string special_name = PathOf(files, kSpecialTokensFile);
  DT_ASSIGN_OR_RETURN(const Json special, ParseObject(files.special_tokens, special_name));
  DT_RETURN_IF_ERROR(ReadNamed(special, special_name, true, tokens));
  const std::string added_name = PathOf(files, kAddedTokensFile);
  DT_ASSIGN_OR_RETURN(const Json added, ParseObject(files.added_tokens, added_name));
  DT_RETURN_IF_ERROR(ReadTokenSettings(added, added_name, tokens));
  return tokens;
}

// Gives tokens ids as `tokenizers` does: that of their piece, or the next one behind all pieces.
class TokenNumbering {
 public:
  TokenNumbering(const Json& vocabulary, const MergesFiles& files)
      : vocabulary_(vocabulary), files_(files), next_(static_cast<int32_t>(vocabulary.size())) {}

  // Of tokens with the same text the first counts. `has_id`: a file says which id it has.
  Status Add(AddedToken token, bool has_id) {
    if (token.content.empty() || ids_.contains(token.content)) return OkStatus();
    const auto piece = vocabulary_.find(token.content);
    const int32_t id = piece == vocabulary_.end() ? next_++ : piece->get<int32_t>();
    if (has_id && token.id != id) {
      return DataError(absl::StrFormat(
          "%s: the token \"%s\" has the id %d in %s; beside this vocabulary of %d pieces it is %d",
          PathOf(files_, kPiecesFile), Printable(token.content), token.id,
          files_.added_tokens.empty() ? kSettingsFile : kAddedTokensFile, vocabulary_.size(), id));
    }
    token.id = id;
    ids_[token.content] = id;
    tokens_.push_back(std::move(token));
    return OkStatus();
  }

  std::optional<int32_t> IdOf(const std::string& content) const {
    const auto found = ids_.find(content);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<AddedToken> Take() { return std::move(tokens_); }

 private:
  const Json& vocabulary_;
  const MergesFiles& files_;
  int32_t next_;
  std::map<std::string, int32_t> ids_;
  std::vector<AddedToken> tokens_;
};

// Sets the added tokens, and the rows <s> A </s> and <s> A </s></s> B </s>.
Status AddTokens(const MergesFiles& files, const Json& settings, const Json& vocabulary,
                 TokenizerFile& file) {
  DT_ASSIGN_OR_RETURN(TokenSettings tokens, ReadTokens(files, settings));
  std::vector<AddedToken> named;
  for (const auto& [key, usual] : kNamedTokens) {
    const auto [place, is_new] =
        tokens.named.try_emplace(key, AddedToken{.content = usual, .is_special = true});
    if (place->second) named.push_back(*place->second);
  }
  const auto content_of = [&](const char* key) {
    const std::optional<AddedToken>& token = tokens.named[key];
    return token ? token->content : "";
  };
  const std::string cls = content_of("cls_token");
  const std::string sep = content_of("sep_token");
  for (const auto& [key, token] : tokens.named) {
    const bool is_usual = std::ranges::any_of(
        kNamedTokens, [&key = key](const auto& usual) { return key == usual.first; });
    if (token && !is_usual) named.push_back(*token);
  }
  TokenNumbering numbering(vocabulary, files);
  for (AddedToken& token : tokens.with_ids) {
    token.is_special |= std::ranges::any_of(
        named, [&](const AddedToken& other) { return other.content == token.content; });
    DT_RETURN_IF_ERROR(numbering.Add(token, true));
  }
  for (AddedToken& token : named) {
    token.is_special = true;
    DT_RETURN_IF_ERROR(numbering.Add(token, false));
  }
  for (const AddedToken& token : tokens.others) DT_RETURN_IF_ERROR(numbering.Add(token, false));
  const std::optional<int32_t> first = numbering.IdOf(cls);
  const std::optional<int32_t> last = numbering.IdOf(sep);
  if (!first || !last) {
    return DataError(file.name + ": the settings beside it name no cls_token or no sep_token");
  }
  file.added_tokens = numbering.Take();
  file.single = {{.special_id = *first}, {.text = 0}, {.special_id = *last}};
  file.pair = {{.special_id = *first}, {.text = 0}, {.special_id = *last},
               {.special_id = *last},  {.text = 1}, {.special_id = *last}};
  return OkStatus();
}

Status CheckSettings(const Json& settings, const std::string& name) {
  const Json& type = FieldOf(settings, "tokenizer_class");
  const bool is_known =
      std::ranges::any_of(kClasses, [&](std::string_view known) { return type == known; });
  if (!type.is_null() && !is_known) {
    return DataError(absl::StrFormat(
        "%s: tokenizer_class %s is not known with %s and %s; known is RobertaTokenizer", name,
        Printable(JsonText(type)), kPiecesFile, kMergesFile));
  }
  if (FieldOf(settings, "split_special_tokens") == true) {
    return DataError(name + ": split_special_tokens is set, which dtrain does not know");
  }
  return OkStatus();
}

}  // namespace

bool IsMergesVocabulary(const std::string& path) {
  return fs::path(path).filename() == kPiecesFile;
}

StatusOr<MergesFiles> ReadMergesFiles(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  MergesFiles files{.folder = folder};
  for (const auto& [name, text] :
       {std::pair(kPiecesFile, &files.pieces), std::pair(kMergesFile, &files.merges)}) {
    StatusOr<std::string> read = ReadWholeFile(folder / name);
    if (!read.ok()) return DataError(read.status().message());
    *text = *std::move(read);
  }
  DT_RETURN_IF_ERROR(ReadIfThere(folder / kSettingsFile, files.settings));
  DT_RETURN_IF_ERROR(ReadIfThere(folder / kSpecialTokensFile, files.special_tokens));
  DT_RETURN_IF_ERROR(ReadIfThere(folder / kAddedTokensFile, files.added_tokens));
  return files;
}

StatusOr<TokenizerFile> ConvertMergesFiles(const MergesFiles& files) {
  const std::string settings_name = PathOf(files, kSettingsFile);
  TokenizerFile file;
  file.name = PathOf(files, kPiecesFile);
  Json vocabulary = ParseJson<Json>(files.pieces);
  if (!vocabulary.is_object() || vocabulary.empty()) {
    return DataError(file.name + ": is no JSON object {piece: id}, or it is cut");
  }
  // No added tokens yet: so many different ids below the number of pieces leave no gap.
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> pieces, PiecesOf(vocabulary, file));
  DT_ASSIGN_OR_RETURN(Json merges, MergesOf(files.merges, pieces, PathOf(files, kMergesFile)));
  DT_ASSIGN_OR_RETURN(const Json settings, ParseObject(files.settings, settings_name));
  DT_RETURN_IF_ERROR(CheckSettings(settings, settings_name));
  DT_RETURN_IF_ERROR(AddTokens(files, settings, vocabulary, file));
  file.pre_tokenizer = {{"type", "ByteLevel"},
                        {"add_prefix_space", FieldOf(settings, "add_prefix_space") == true}};
  file.model = {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", std::move(merges)}};
  return file;
}

}  // namespace dtrain::internal
