// html.cc - escapes texts, and builds tables of them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/html.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/utf8.h"

namespace dtrain {
namespace {

constexpr size_t kMaxText = 2000;

// The text without control characters and invalid bytes, of bounded length.
std::string Mended(std::string_view text) {
  std::string mended;
  while (!text.empty()) {
    if (mended.size() >= kMaxText) return mended + "...";
    size_t size = 1;
    const uint32_t code = DecodeUtf8(text, size);
    const bool is_control = (code < 0x20 && code != '\n' && code != '\t') ||
                            (code >= 0x7F && code < 0xA0) || (code >= 0x202A && code <= 0x202E) ||
                            (code >= 0x2066 && code <= 0x2069);
    mended += code == kInvalidCodePoint || is_control ? kReplacement : text.substr(0, size);
    text.remove_prefix(size);
  }
  return mended;
}

}  // namespace

std::string Html(std::string_view text) {
  return absl::StrReplaceAll(
      Mended(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string JsonForScript(std::string_view json) {
  return absl::StrReplaceAll(ToAbsl(json), {{"<", "\\u003c"},
                                            {">", "\\u003e"},
                                            {"&", "\\u0026"},
                                            {"\xE2\x80\xA8", "\\u2028"},
                                            {"\xE2\x80\xA9", "\\u2029"}});
}

std::string JsonQuoted(std::string_view text) {
  return internal::JsonText(nlohmann::json(Mended(text)));
}

std::string PolicySource(std::string_view hex_digest) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = "'sha256-";
  uint32_t bits = 0;
  int held = 0;
  for (const char digit : hex_digest) {
    const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    bits = bits << 4 | static_cast<uint32_t>(value);
    held += 4;
    if (held < 6) continue;
    held -= 6;
    text += kDigits[bits >> held & 63];
  }
  if (held > 0) text += kDigits[bits << (6 - held) & 63];
  while ((text.size() - 8) % 4 != 0) text += '=';
  return text + "'";
}

std::string TableHtml(const std::vector<std::string>& heads,
                      const std::vector<std::vector<Cell>>& rows, const TableOptions& options) {
  std::string html = absl::StrFormat("<div class=\"scroll\"><table class=\"%s\">", options.name);
  if (!options.caption.empty())
    absl::StrAppend(&html, "<caption>", Html(options.caption), "</caption>");
  html += "<thead><tr>";
  const auto is_number = [&](size_t column) { return heads[column].starts_with('>'); };
  const auto head_text = [&](size_t column) {
    return Html(std::string_view(heads[column]).substr(is_number(column) ? 1 : 0));
  };
  for (size_t i = 0; i < heads.size(); ++i) {
    absl::StrAppend(&html, "<th scope=\"col\"", is_number(i) ? " class=\"n\"" : "", ">",
                    options.is_sortable ? "<button type=\"button\">" : "", head_text(i),
                    options.is_sortable ? "</button>" : "", "</th>");
  }
  html += "</tr></thead><tbody>";
  for (const std::vector<Cell>& row : rows) {
    html += "<tr>";
    for (size_t i = 0; i < row.size() && i < heads.size(); ++i) {
      const char* const tag = i == 0 ? "th" : "td";
      absl::StrAppend(&html, "<", tag, i == 0 ? " scope=\"row\"" : "",
                      is_number(i) ? " class=\"n\"" : "", " data-head=\"", head_text(i), "\"");
      if (!row[i].sort.empty()) absl::StrAppend(&html, " data-sort=\"", Html(row[i].sort), "\"");
      absl::StrAppend(&html, ">", Html(row[i].text), "</", tag, ">");
    }
    html += "</tr>";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace dtrain
