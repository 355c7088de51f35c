// sentence_rules.cc - applies the rules of a model, and treats spaces as its options say.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/sentence_rules.h"

#include <cstdint>
#include <utility>

#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/internal/bpe_text.h"

namespace dtrain::internal {

SentenceRules::SentenceRules(const SentenceOptions& options, CharacterMap map,
                             std::span<const std::string> symbols)
    : options_(options), map_(std::move(map)), symbols_(symbols) {
  for (int c = 0; c < 0x80; ++c) {
    is_copied_[static_cast<size_t>(c)] = c != ' ' && map_.IsPlain(static_cast<char>(c));
  }
  for (const std::string& symbol : symbols) {
    if (!symbol.empty()) is_copied_[static_cast<uint8_t>(symbol.front())] = false;
  }
}

std::string_view SentenceRules::Next(std::string_view rest, size_t& size) const {
  size = 0;
  symbols_.Walk(rest, [&](size_t found, int32_t) { size = found; });
  if (size > 0) return rest.substr(0, size);
  const CharacterMap::Match match = map_.Longest(rest);
  size = match.size;
  if (size > 0) return match.replacement;
  return DecodeUtf8(rest, size) == kInvalidCodePoint ? kReplacement : rest.substr(0, size);
}

void SentenceRules::Append(std::string_view part, bool& is_after_space, std::string& out) const {
  while (is_after_space && part.starts_with(' ')) part.remove_prefix(1);
  if (part.empty()) return;
  is_after_space = options_.remove_extra_whitespaces && part.ends_with(' ');
  if (!options_.escape_whitespaces) {
    out.append(part);
    return;
  }
  for (size_t found = part.find(kMetaspace); found != std::string_view::npos;
       found = part.find(kMetaspace)) {
    out.append(part.substr(0, found)) += ' ';
    part.remove_prefix(found + kMetaspace.size());
  }
  out.append(part);
}

void SentenceRules::Apply(std::string_view sentence, std::string& out) const {
  out.clear();
  size_t size = 0;
  while (options_.remove_extra_whitespaces && !sentence.empty() && Next(sentence, size) == " ") {
    sentence.remove_prefix(size);
  }
  if (sentence.empty()) return;
  const bool is_prefix = options_.add_dummy_prefix && !options_.treat_whitespace_as_suffix;
  const bool is_suffix = options_.add_dummy_prefix && options_.treat_whitespace_as_suffix;
  if (is_prefix) out += ' ';
  bool is_after_space = options_.remove_extra_whitespaces;
  while (!sentence.empty()) {
    size_t copied = 0;
    while (copied < sentence.size() && is_copied_[static_cast<uint8_t>(sentence[copied])]) ++copied;
    // What is behind the last one may change it.
    if (copied > 0 && copied < sentence.size() && static_cast<uint8_t>(sentence[copied]) >= 0x80) {
      --copied;
    }
    if (copied > 0) {
      out.append(sentence.substr(0, copied));
      sentence.remove_prefix(copied);
      is_after_space = false;
      continue;
    }
    const std::string_view part = Next(sentence, size);
    sentence.remove_prefix(size);
    Append(part, is_after_space, out);
  }
  while (options_.remove_extra_whitespaces && out.ends_with(' ')) out.pop_back();
  if (is_suffix) out += ' ';
}

}  // namespace dtrain::internal
