// text_rules.cc - reads and applies the normalizers of a tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/text_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/internal/byte_level.h"
#include "dtrain/tokenizers/internal/composition.h"
#include "dtrain/tokenizers/internal/tokenizer_file.h"

namespace dtrain::internal {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;  // of Sequences inside Sequences
constexpr std::string_view kTwoSpacesOrMore = " {2,}";

bool IsSpaceAt(std::string_view text, size_t& size) {
  return ClassOf(DecodeUtf8(text, size)) == CharacterClass::kSpace;
}

void AppendReplaced(std::string_view text, const std::string& pattern, const std::string& content,
                    std::string& out) {
  for (size_t found = text.find(pattern); found != std::string_view::npos;
       found = text.find(pattern)) {
    out.append(text.substr(0, found)).append(content);
    text.remove_prefix(found + pattern.size());
  }
  out.append(text);
}

void AppendSqueezed(std::string_view text, const std::string& content, std::string& out) {
  for (size_t found = text.find("  "); found != std::string_view::npos; found = text.find("  ")) {
    out.append(text.substr(0, found)).append(content);
    text.remove_prefix(std::min(text.find_first_not_of(' ', found), text.size()));
  }
  out.append(text);
}

std::string_view Stripped(std::string_view text, bool left, bool right) {
  size_t size = 0;
  while (left && !text.empty() && IsSpaceAt(text, size)) text.remove_prefix(size);
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0u) == 0x80) --begin;
    if (!IsSpaceAt(text.substr(begin), size)) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

// The normalizer Nmt of `tokenizers`: drops control characters, and writes characters that hardly
// show as spaces.
enum class NmtAction : uint8_t { kKeep, kDrop, kSpace };

NmtAction NmtActionOf(uint32_t c) {
  if ((c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
      c == 0x9F) {
    return NmtAction::kDrop;
  }
  if (c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
      c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD) {
    return NmtAction::kSpace;
  }
  return NmtAction::kKeep;
}

void AppendNmt(std::string_view text, std::string& out) {
  for (size_t size = 0; !text.empty(); text.remove_prefix(size)) {
    const NmtAction action = NmtActionOf(DecodeUtf8(text, size));
    if (action == NmtAction::kKeep) out.append(text.substr(0, size));
    if (action == NmtAction::kSpace) out += ' ';
  }
}

}  // namespace

StatusOr<TextRules> TextRules::Parse(const Json& normalizer, const std::string& file) {
  TextRules rules;
  DT_RETURN_IF_ERROR(rules.Add(normalizer, file, 0));
  return rules;
}

bool TextRules::may_drop_begin() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const Rule& rule) {
    const bool replaces = rule.kind == Kind::kReplace || rule.kind == Kind::kSqueeze;
    return rule.kind == Kind::kNmt || rule.strips_left || (replaces && rule.content.empty());
  });
}

Status TextRules::AddReplace(const Json& normalizer, const std::string& file) {
  const Json& pattern = FieldOf(normalizer, "pattern");
  const Json& text = FieldOf(pattern, "String");
  const Json& regex = FieldOf(pattern, "Regex");
  const Json& content = FieldOf(normalizer, "content");
  if (!content.is_string()) {
    return DataError(file + ": normalizer Replace: content is no text");
  }
  const auto& replacement = content.get_ref<const std::string&>();
  if (text.is_string() && !text.get_ref<const std::string&>().empty()) {
    rules_.push_back({.kind = Kind::kReplace,
                      .map = {},
                      .pattern = text.get<std::string>(),
                      .content = replacement});
    return OkStatus();
  }
  if (regex != kTwoSpacesOrMore || replacement.find('$') != std::string::npos) {
    return DataError(absl::StrFormat(
        "%s: normalizer Replace has a pattern that dtrain does not know: %s; known are a text, and "
        "the Regex \" {2,}\"",
        file, Printable(regex.is_string() ? regex.get<std::string>() : "no pattern")));
  }
  rules_.push_back({.kind = Kind::kSqueeze, .map = {}, .pattern = {}, .content = replacement});
  return OkStatus();
}

Status TextRules::Add(const Json& normalizer, const std::string& file, int depth) {
  const std::string type = TypeOf(normalizer);
  if (type.empty() && normalizer.is_null()) return OkStatus();
  if (type == "Sequence" && depth < kMaxDepth) {
    for (const Json& part : FieldOf(normalizer, "normalizers")) {
      DT_RETURN_IF_ERROR(Add(part, file, depth + 1));
    }
    return OkStatus();
  }
  if (type == "Precompiled") {
    const Json& rules = FieldOf(normalizer, "precompiled_charsmap");
    std::string bytes;
    if (!rules.is_string() || !absl::Base64Unescape(rules.get_ref<const std::string&>(), &bytes)) {
      return DataError(file + ": normalizer: precompiled_charsmap is not in base64");
    }
    DT_ASSIGN_OR_RETURN(CharacterMap map, CharacterMap::Parse(bytes, file + ": normalizer"));
    rules_.push_back({.kind = Kind::kMap, .map = std::move(map), .pattern = {}, .content = {}});
    return OkStatus();
  }
  if (type == "Replace") return AddReplace(normalizer, file);
  if (type == "Strip") {
    rules_.push_back({.kind = Kind::kStrip,
                      .map = {},
                      .pattern = {},
                      .content = {},
                      .strips_left = FieldOf(normalizer, "strip_left") == true,
                      .strips_right = FieldOf(normalizer, "strip_right") == true});
    return OkStatus();
  }
  const std::pair<const char*, Kind> plain[] = {{"Nmt", Kind::kNmt},
                                                {"NFC", Kind::kNfc},
                                                {"NFD", Kind::kNfd},
                                                {"NFKC", Kind::kNfkc},
                                                {"NFKD", Kind::kNfkd}};
  for (const auto& [name, kind] : plain) {
    if (type != name) continue;
    rules_.push_back({.kind = kind, .map = {}, .pattern = {}, .content = {}});
    return OkStatus();
  }
  return DataError(absl::StrFormat(
      "%s: normalizer %s is not known to Unigram; known are Precompiled, Replace, Strip, Nmt, NFC, "
      "NFD, NFKC, NFKD and Sequence",
      file, Printable(type.empty() ? "without a type" : type)));
}

void TextRules::ApplyRule(const Rule& rule, std::string_view text, std::string& out) {
  switch (rule.kind) {
    case Kind::kMap:
      rule.map.AppendByGraphemes(text, out);
      return;
    case Kind::kReplace:
      AppendReplaced(text, rule.pattern, rule.content, out);
      return;
    case Kind::kSqueeze:
      AppendSqueezed(text, rule.content, out);
      return;
    case Kind::kStrip:
      out.append(Stripped(text, rule.strips_left, rule.strips_right));
      return;
    case Kind::kNmt:
      AppendNmt(text, out);
      return;
    case Kind::kNfc:
      out.append(Compose(text));
      return;
    case Kind::kNfd:
      out.append(Decompose(text));
      return;
    case Kind::kNfkc:
      out.append(Compose(WithoutVariants(text)));
      return;
    case Kind::kNfkd:
      out.append(Decompose(WithoutVariants(text)));
      return;
  }
}

void TextRules::Apply(std::string& text, std::string& buffer) const {
  for (const Rule& rule : rules_) {
    buffer.clear();
    ApplyRule(rule, text, buffer);
    text.swap(buffer);
  }
}

}  // namespace dtrain::internal
