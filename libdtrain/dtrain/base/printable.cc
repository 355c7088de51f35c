// printable.cc - escapes character by character, and cuts between characters.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/printable.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace dtrain {
namespace {

// Characters that a terminal obeys, or that make a text look like another one.
bool IsHidden(utf8proc_int32_t c) {
  const bool is_control = c < 0x20 || (c >= 0x7F && c < 0xA0);
  const bool is_separator = c == 0x2028 || c == 0x2029 || c == 0x200B || c == 0xFEFF;
  const bool changes_direction = (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  return is_control || is_separator || changes_direction;
}

std::string Escaped(utf8proc_int32_t c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  return c < 0x80 ? absl::StrFormat("\\x%02x", c) : absl::StrFormat("\\u%04x", c);
}

// The first character of `text` as it is shown; `size` receives its bytes.
std::string ShownCharacter(std::string_view text, size_t& size) {
  utf8proc_int32_t c = -1;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &c);
  size = bytes > 0 ? static_cast<size_t>(bytes) : 1;
  if (bytes <= 0) return absl::StrFormat("\\x%02x", static_cast<unsigned char>(text[0]));
  return IsHidden(c) ? Escaped(c) : std::string(text.substr(0, size));
}

}  // namespace

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string shown;
  while (!text.empty()) {
    size_t size = 0;
    const std::string character = ShownCharacter(text, size);
    if (shown.size() + character.size() > max_bytes) return shown + "...";
    shown += character;
    text.remove_prefix(size);
  }
  return shown;
}

std::string PrintableLines(std::string_view text, size_t max_line_bytes) {
  std::string shown;
  for (;;) {
    const size_t end = text.find('\n');
    shown += Printable(text.substr(0, end), max_line_bytes);
    if (end == std::string_view::npos) return shown;
    shown += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string PrintableList(const std::vector<std::string>& names, size_t max_names) {
  std::string list;
  const size_t shown = std::min(names.size(), max_names);
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) list += ", ";
    list += Printable(names[i], 40);
  }
  if (shown < names.size()) list += absl::StrFormat(" and %d more", names.size() - shown);
  return list;
}

std::string FormatNumber(double value, int decimals) {
  if (std::isnan(value)) return "nan";
  constexpr double kLargest = 1e6;
  const bool is_long = std::abs(value) >= kLargest;
  return is_long ? absl::StrFormat("%.4g", value) : absl::StrFormat("%.*f", decimals, value);
}

}  // namespace dtrain
