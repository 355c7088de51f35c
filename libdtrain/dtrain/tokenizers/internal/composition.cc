// composition.cc - finds the characters that a normal form changes, and lets utf8proc do the rest.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/composition.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"

namespace dtrain::internal {
namespace {

#include "dtrain/data/internal/composition_ranges.inc"
#include "dtrain/data/internal/variant_ranges.inc"

// Texts without characters from U+0300 on are composed.
constexpr uint8_t kFirstByteOfMarks = 0xCC;

// The third number of the range that has the code point; 0 if none has it.
template <size_t kCount>
uint32_t KindIn(const uint32_t (&ranges)[kCount][3], uint32_t code_point) {
  const auto* const after =
      std::upper_bound(std::begin(ranges), std::end(ranges), code_point,
                       [](uint32_t value, const uint32_t(&range)[3]) { return value < range[0]; });
  if (after == std::begin(ranges)) return 0;
  const auto& range = *std::prev(after);
  return code_point <= range[1] ? range[2] : 0;
}

// 0: nothing before or after it matters, and it is no composed character. 1: may compose with what
// follows, or is composed. 2: may change itself or what is before it.
uint32_t RoleOf(uint32_t code_point) { return KindIn(kCompositionRanges, code_point); }

using NormalForm = utf8proc_uint8_t* (*)(const utf8proc_uint8_t*);

// `text` has no NUL, which no form changes.
void AppendForm(NormalForm form, std::string_view text, std::string& out) {
  const std::string terminated(text);
  utf8proc_uint8_t* const changed =
      form(reinterpret_cast<const utf8proc_uint8_t*>(terminated.c_str()));
  DT_CHECK(changed != nullptr) << "out of memory";
  out += reinterpret_cast<const char*>(changed);
  std::free(changed);  // utf8proc allocates with malloc()
}

void AppendComposed(std::string_view text, std::string& out) {
  AppendForm(utf8proc_NFC, text, out);
}

// Runs of characters that may matter to each other go through `form`, if one has `least_role`.
std::string ChangeRuns(std::string_view text, NormalForm form, uint32_t least_role) {
  std::string out;
  while (!text.empty()) {
    bool changes = false;
    size_t end = 0;
    size_t size = 0;
    for (; end < text.size(); end += size) {
      const uint32_t role = RoleOf(DecodeUtf8(text.substr(end), size));
      if (role == 0) break;
      changes |= role >= least_role;
    }
    if (changes) {
      AppendForm(form, text.substr(0, end), out);
    } else {
      out.append(text.substr(0, end));
    }
    text.remove_prefix(end);
    while (!text.empty() && RoleOf(DecodeUtf8(text, size)) == 0) {
      out.append(text.substr(0, size));
      text.remove_prefix(size);
    }
  }
  return out;
}

}  // namespace

bool MayCompose(std::string_view text) {
  const bool has_marks = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<uint8_t>(c) >= kFirstByteOfMarks;
  });
  for (size_t size = 0; has_marks && !text.empty(); text.remove_prefix(size)) {
    if (RoleOf(DecodeUtf8(text, size)) == 2) return true;
  }
  return false;
}

void ComposeWithSources(std::string_view text, int32_t offset, std::string& out,
                        std::vector<TokenSpan>& sources) {
  for (size_t begin = 0; begin < text.size();) {
    // A character, and those after it that may change it. What follows composes apart from them.
    size_t size = 0;
    const uint32_t first = RoleOf(DecodeUtf8(text.substr(begin), size));
    size_t end = begin + size;
    bool changes = first == 2;
    while (first != 0 && end < text.size() && RoleOf(DecodeUtf8(text.substr(end), size)) == 2) {
      changes = true;
      end += size;
    }
    const std::string_view part = text.substr(begin, end - begin);
    const size_t before = out.size();
    if (changes) {
      AppendComposed(part, out);
    } else {
      out.append(part);
    }
    const TokenSpan source{offset + static_cast<int32_t>(begin),
                           offset + static_cast<int32_t>(end)};
    sources.insert(sources.end(), out.size() - before, source);
    begin = end;
  }
}

std::string Compose(std::string_view text) { return ChangeRuns(text, utf8proc_NFC, 2); }

std::string Decompose(std::string_view text) { return ChangeRuns(text, utf8proc_NFD, 1); }

std::string WithoutVariants(std::string_view text) {
  std::string out;
  for (size_t size = 0; !text.empty(); text.remove_prefix(size)) {
    const uint32_t code_point = DecodeUtf8(text, size);
    if (KindIn(kVariantRanges, code_point) == 0) {
      out.append(text.substr(0, size));
    } else {
      AppendForm(utf8proc_NFKD, text.substr(0, size), out);
    }
  }
  return out;
}

}  // namespace dtrain::internal
