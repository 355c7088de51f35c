// tokenizer_file.cc - reads added tokens, row templates and vocabularies of tokenizer.json files.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/tokenizer_file.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/printable.h"

namespace dtrain::internal {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max() - 1;

bool Flag(const Json& object, const char* key) {
  const Json value = FieldOf(object, key);
  return value.is_boolean() && value.get<bool>();
}

std::optional<int32_t> IdIn(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  const auto id = value.get<int64_t>();
  return id >= 0 && id <= kMaxId ? std::optional(static_cast<int32_t>(id)) : std::nullopt;
}

StatusOr<std::vector<AddedToken>> AddedTokensOf(const Json& list, const std::string& name) {
  std::vector<AddedToken> tokens;
  for (const Json& entry : list) {
    const Json content = FieldOf(entry, "content");
    const std::optional<int32_t> id = IdIn(FieldOf(entry, "id"));
    if (!content.is_string() || !id || content.get_ref<const std::string&>().empty()) {
      return DataError(absl::StrCat(
          name, ": added_tokens: an entry has no content or no id: ", Printable(JsonText(entry))));
    }
    tokens.push_back({.content = content.get<std::string>(),
                      .id = *id,
                      .single_word = Flag(entry, "single_word"),
                      .strips_left = Flag(entry, "lstrip"),
                      .strips_right = Flag(entry, "rstrip"),
                      .is_special = Flag(entry, "special"),
                      .is_normalized = Flag(entry, "normalized")});
  }
  return tokens;
}

// Rows of a TemplateProcessing: [{SpecialToken: {id, type_id}}, {Sequence: {id: "A", type_id}}].
StatusOr<std::vector<RowPart>> TemplateOf(const Json& processor, const char* key,
                                          const std::string& name) {
  std::vector<RowPart> row;
  const Json special_tokens = FieldOf(processor, "special_tokens");
  for (const Json& part : FieldOf(processor, key)) {
    const Json text = FieldOf(part, "Sequence");
    const Json special = FieldOf(part, "SpecialToken");
    const std::optional<int32_t> type = IdIn(FieldOf(text.is_object() ? text : special, "type_id"));
    if (!type) break;
    if (text.is_object()) {
      row.push_back({.text = FieldOf(text, "id") == "B" ? 1 : 0, .type = *type});
      continue;
    }
    const Json token = FieldOf(special, "id");
    if (!token.is_string()) break;
    const Json ids =
        FieldOf(FieldOf(special_tokens, token.get_ref<const std::string&>().c_str()), "ids");
    if (!ids.is_array() || ids.empty()) break;
    for (const Json& value : ids) {
      const std::optional<int32_t> id = IdIn(value);
      if (!id) return DataError(absl::StrCat(name, ": post_processor: an id is no number"));
      row.push_back({.special_id = *id, .type = *type});
    }
  }
  const bool has_text =
      std::any_of(row.begin(), row.end(), [](const RowPart& part) { return part.special_id < 0; });
  if (!has_text) {
    return DataError(
        absl::StrCat(name, ": post_processor: ", key, " is no list of special tokens and texts"));
  }
  return row;
}

// BertProcessing: [CLS] A [SEP] B [SEP], the second text of type 1. RobertaProcessing: two
// separators between the texts, all of type 0. Both give {sep: [text, id], cls: [text, id]}.
Status ReadPairProcessor(const Json& processor, bool is_roberta, TokenizerFile& file) {
  const auto id_of = [&](const char* key) {
    const Json value = FieldOf(processor, key);
    return value.is_array() && value.size() == 2 ? IdIn(value[1]) : std::nullopt;
  };
  const std::optional<int32_t> cls = id_of("cls");
  const std::optional<int32_t> sep = id_of("sep");
  if (!cls || !sep) {
    return DataError(file.name + ": post_processor: cls and sep must be [token, id]");
  }
  file.single = {{.special_id = *cls}, {.text = 0}, {.special_id = *sep}};
  file.pair = file.single;
  if (is_roberta) file.pair.push_back({.special_id = *sep});
  const int type = is_roberta ? 0 : 1;
  file.pair.push_back({.text = 1, .type = type});
  file.pair.push_back({.special_id = *sep, .type = type});
  return OkStatus();
}

Status ReadPostProcessor(const Json& processor, TokenizerFile& file) {
  const std::string type = TypeOf(processor);
  if (type.empty() || type == "ByteLevel") return OkStatus();  // ByteLevel only trims places
  if (type == "BertProcessing") return ReadPairProcessor(processor, false, file);
  if (type == "RobertaProcessing") return ReadPairProcessor(processor, true, file);
  if (type == "Sequence") {
    for (const Json& part : FieldOf(processor, "processors")) {
      DT_RETURN_IF_ERROR(ReadPostProcessor(part, file));
    }
    return OkStatus();
  }
  if (type != "TemplateProcessing") {
    return DataError(absl::StrCat(file.name, ": post_processor ", Printable(type),
                                  " is not known; known are TemplateProcessing, BertProcessing, "
                                  "RobertaProcessing and ByteLevel"));
  }
  DT_ASSIGN_OR_RETURN(file.single, TemplateOf(processor, "single", file.name));
  DT_ASSIGN_OR_RETURN(file.pair, TemplateOf(processor, "pair", file.name));
  return OkStatus();
}

}  // namespace

const Json& FieldOf(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

std::string TypeOf(const Json& part) {
  const Json type = FieldOf(part, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

StatusOr<TokenizerFile> ParseTokenizerFile(std::string_view text, const std::string& name) {
  Json root = ParseJson<Json>(text);
  TokenizerFile file;
  file.name = name;
  if (!FieldOf(root, "model").is_object()) {
    return DataError(name + ": is no tokenizer.json: it has no field model");
  }
  file.model = std::move(root["model"]);  // nearly all of the file
  file.normalizer = FieldOf(root, "normalizer");
  file.pre_tokenizer = FieldOf(root, "pre_tokenizer");
  DT_ASSIGN_OR_RETURN(file.added_tokens, AddedTokensOf(FieldOf(root, "added_tokens"), name));
  file.single = {{.text = 0}};
  file.pair = {{.text = 0}, {.text = 1, .type = 1}};
  DT_RETURN_IF_ERROR(ReadPostProcessor(FieldOf(root, "post_processor"), file));
  return file;
}

StatusOr<std::vector<std::string>> PiecesOf(const Json& vocabulary, const TokenizerFile& file) {
  if (!vocabulary.is_object() || vocabulary.empty()) {
    return DataError(file.name + ": model.vocab is no {piece: id}, or it is empty");
  }
  // Added tokens have ids of their own, which may lie behind those of the vocabulary.
  const size_t size = vocabulary.size() + file.added_tokens.size();
  std::vector<std::string> pieces;
  std::vector<bool> is_taken;
  for (const auto& [piece, value] : vocabulary.items()) {
    const std::optional<int32_t> id = IdIn(value);
    if (!id || static_cast<size_t>(*id) >= size) {
      return DataError(
          absl::StrFormat("%s: piece \"%s\" has the id %s; %d pieces have ids below %d", file.name,
                          Printable(piece), JsonText(value), vocabulary.size(), size));
    }
    const auto place = static_cast<size_t>(*id);
    if (place >= pieces.size()) {
      pieces.resize(place + 1);
      is_taken.resize(place + 1);
    }
    if (is_taken[place]) {
      return DataError(absl::StrFormat("%s: pieces \"%s\" and \"%s\" both have the id %d",
                                       file.name, Printable(pieces[place]), Printable(piece),
                                       place));
    }
    is_taken[place] = true;
    pieces[place] = piece;
  }
  return pieces;
}

Status CheckIds(const TokenizerFile& file, size_t vocabulary_size) {
  size_t size = vocabulary_size;
  const size_t limit = vocabulary_size + file.added_tokens.size();
  for (const AddedToken& token : file.added_tokens) {
    const auto id = static_cast<size_t>(token.id);
    if (id >= limit) {
      return DataError(absl::StrFormat(
          "%s: added_tokens: \"%s\" has the id %d; %d pieces and %d added tokens have ids below %d",
          file.name, Printable(token.content), id, vocabulary_size, file.added_tokens.size(),
          limit));
    }
    size = std::max(size, id + 1);
  }
  for (const std::vector<RowPart>* row : {&file.single, &file.pair}) {
    for (const RowPart& part : *row) {
      if (part.special_id < static_cast<int64_t>(size)) continue;
      return DataError(absl::StrFormat("%s: post_processor: id %d is beyond the %d pieces",
                                       file.name, part.special_id, size));
    }
  }
  return OkStatus();
}

void AddSpecialPieces(const TokenizerFile& file, std::vector<std::string>& pieces) {
  for (const AddedToken& token : file.added_tokens) {
    const auto id = static_cast<size_t>(token.id);
    if (id >= pieces.size()) pieces.resize(id + 1);
    pieces[id] = token.content;
  }
}

}  // namespace dtrain::internal
