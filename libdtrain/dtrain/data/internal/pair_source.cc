// pair_source.cc - languages and white space, and the reader of JSON lines.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/internal/pair_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/printable.h"
#include "dtrain/data/text_reader.h"

namespace dtrain::internal {
namespace {

using Json = nlohmann::json;

class JsonPairs final : public PairSource {
 public:
  JsonPairs(TextReader reader, std::string source, std::string target)
      : reader_(std::move(reader)), source_(std::move(source)), target_(std::move(target)) {}

  StatusOr<bool> Next(FoundPair& pair) override {
    TextLine line;
    for (;;) {
      DT_ASSIGN_OR_RETURN(const bool more, reader_.Next(line));
      if (!more) return CheckEnd();
      if (absl::StripAsciiWhitespace(ToAbsl(line.text)).empty()) continue;
      Json parsed = internal::ParseJson<Json>(line.text);
      const std::string place = absl::StrFormat("%s:%d: ", reader_.path(), line.number);
      if (!parsed.is_object()) {
        return DataError(place + "no JSON object; each line must be like {\"" + Printable(source_) +
                         "\": \"...\", \"" + Printable(target_) + "\": \"...\"}");
      }
      if (parsed.contains("translation") && parsed["translation"].is_object()) {
        parsed = Json(parsed["translation"]);
      }
      if (keys_.empty()) {
        for (const auto& [key, value] : parsed.items()) keys_.push_back(key);
      }
      const auto source = parsed.find(source_);
      const auto target = parsed.find(target_);
      const bool has_both = source != parsed.end() && source->is_string() &&
                            target != parsed.end() && target->is_string();
      if (!has_both) {
        ++incomplete_;
        continue;
      }
      pair.source = JoinLines(source->get<std::string>());
      pair.target = JoinLines(target->get<std::string>());
      pair.number = line.number;
      ++pairs_;
      return true;
    }
  }

  int64_t incomplete() const override { return incomplete_; }

 private:
  StatusOr<bool> CheckEnd() const {
    if (pairs_ > 0 || incomplete_ == 0) return false;
    return DataError(absl::StrFormat(
        "%s: no line has both \"%s\" and \"%s\"; the first one has: %s. Name the two keys in "
        "data.source_language and data.target_language",
        reader_.path(), Printable(source_), Printable(target_), PrintableList(keys_)));
  }

  TextReader reader_;
  std::string source_, target_;
  std::vector<std::string> keys_;  // of the first line
  int64_t pairs_ = 0;
  int64_t incomplete_ = 0;
};

}  // namespace

int LanguageMatch(std::string_view found, std::string_view wanted) {
  const auto plain = [](std::string_view code) {
    std::string text = absl::AsciiStrToLower(ToAbsl(code));
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
  };
  const std::string a = plain(found);
  const std::string b = plain(wanted);
  if (a == b) return 2;
  const bool one_has_region =
      (a.find('-') == std::string::npos) != (b.find('-') == std::string::npos);
  return one_has_region && a.substr(0, a.find('-')) == b.substr(0, b.find('-')) ? 1 : 0;
}

std::string JoinLines(std::string_view text) {
  std::string joined;
  bool space = false;
  for (const char c : text) {
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      space = !joined.empty();
      continue;
    }
    if (space) joined += ' ';
    space = false;
    joined += c;
  }
  return joined;
}

StatusOr<std::unique_ptr<PairSource>> OpenJsonPairs(const std::string& path,
                                                    const std::string& source_language,
                                                    const std::string& target_language,
                                                    int64_t max_line_bytes) {
  DT_ASSIGN_OR_RETURN(TextReader reader,
                      TextReader::Open(path, {.max_line_bytes = max_line_bytes}));
  return std::make_unique<JsonPairs>(std::move(reader), source_language, target_language);
}

}  // namespace dtrain::internal
