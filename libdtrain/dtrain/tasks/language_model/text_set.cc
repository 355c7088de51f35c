// text_set.cc - reads lines and puts them together.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/text_set.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/text_reader.h"

namespace dtrain {
namespace {

// A file may hold a whole text in one line.
constexpr int64_t kMaxLineBytes = int64_t{1} << 30;

void Add(std::string text, TextSet& set) {
  if (IsBlank(text)) return;
  set.bytes += static_cast<int64_t>(text.size());
  set.crc = Crc32c(std::string_view("\0", 1), Crc32c(text, set.crc));
  set.texts.push_back(std::move(text));
}

Status ReadFile(const std::string& path, TextUnit unit, TextSet& set) {
  DT_ASSIGN_OR_RETURN(TextReader reader, TextReader::Open(path, {.max_line_bytes = kMaxLineBytes}));
  std::string file;
  TextLine line;
  for (;;) {
    DT_ASSIGN_OR_RETURN(const bool more, reader.Next(line));
    if (!more) break;
    if (unit == TextUnit::kLine) {
      Add(std::string(line.text), set);
    } else {
      file.append(line.text);
      file.push_back('\n');
    }
  }
  Add(std::move(file), set);
  return OkStatus();
}

}  // namespace

StatusOr<TextSet> ReadTexts(const std::vector<std::string>& paths, TextUnit unit) {
  TextSet set;
  for (const std::string& path : paths) DT_RETURN_IF_ERROR(ReadFile(path, unit, set));
  if (!set.texts.empty()) return set;
  return DataError(absl::StrJoin(paths, ", ") + ": holds no text; give a file of UTF-8 text");
}

}  // namespace dtrain
