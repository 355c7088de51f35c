// conll_reader.cc - cuts lines into columns and sentences.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/conll_reader.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/log.h"
#include "dtrain/data/text_reader.h"

namespace dtrain {
namespace {

std::vector<std::string_view> ColumnsOf(std::string_view line) {
  std::vector<std::string_view> columns;
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = std::min(line.find_first_of(" \t", begin), line.size());
    if (end > begin) columns.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return columns;
}

bool IsTag(std::string_view tag) {
  if (tag == "O") return true;
  return tag.size() > 2 && (tag.starts_with("B-") || tag.starts_with("I-"));
}

class Reader {
 public:
  explicit Reader(const ConllOptions& options) : options_(options) {}

  Status Read(const std::string& path) {
    DT_ASSIGN_OR_RETURN(TextReader reader, TextReader::Open(path, {.invalid = options_.invalid}));
    TextLine line;
    for (;;) {
      DT_ASSIGN_OR_RETURN(const bool more, reader.Next(line));
      if (!more) break;
      DT_RETURN_IF_ERROR(Annotate(Add(line.text), absl::StrFormat("%s:%d", path, line.number)));
    }
    if (const std::string bad = reader.DescribeInvalid(); !bad.empty()) LogWarning(bad);
    EndSentence();
    return OkStatus();
  }

  ConllSet Take() { return std::move(set_); }

 private:
  Status Add(std::string_view line) {
    const std::vector<std::string_view> columns = ColumnsOf(line);
    if (columns.empty() || columns.front() == "-DOCSTART-") {
      EndSentence();
      return OkStatus();
    }
    DT_ASSIGN_OR_RETURN(const std::string_view word,
                        Column(columns, options_.word_column, "data.word_column"));
    sentence_.words.emplace_back(word);
    if (!options_.has_tags) return OkStatus();
    const int last = static_cast<int>(columns.size()) - 1;
    const int column = options_.tag_column < 0 ? last : options_.tag_column;
    DT_ASSIGN_OR_RETURN(const std::string_view tag, Column(columns, column, "data.tag_column"));
    if (column == options_.word_column) {
      return DataError(
          "the line is a word without a tag; give each word its tag in a column after it");
    }
    if (!IsTag(tag)) {
      return DataError(absl::StrFormat(
          "the tag \"%s\" is not O, B-TYPE or I-TYPE; is data.tag_column the column of the tags?",
          ToAbsl(tag)));
    }
    sentence_.tags.emplace_back(tag);
    return OkStatus();
  }

  static StatusOr<std::string_view> Column(const std::vector<std::string_view>& columns, int column,
                                           const char* field) {
    if (column < static_cast<int>(columns.size())) return columns[static_cast<size_t>(column)];
    return DataError(absl::StrFormat("the line has %d columns, %s is %d (counted from 0)",
                                     columns.size(), field, column));
  }

  void EndSentence() {
    if (sentence_.words.empty()) return;
    set_.words += static_cast<int64_t>(sentence_.words.size());
    set_.crc = Crc32c(absl::StrJoin(sentence_.words, "\n") + "\n\n", set_.crc);
    set_.crc = Crc32c(absl::StrJoin(sentence_.tags, "\n") + "\n\n", set_.crc);
    set_.sentences.push_back(std::exchange(sentence_, {}));
  }

  ConllOptions options_;
  TaggedSentence sentence_;
  ConllSet set_;
};

}  // namespace

StatusOr<ConllSet> ReadConll(const std::vector<std::string>& paths, const ConllOptions& options) {
  Reader reader(options);
  for (const std::string& path : paths) DT_RETURN_IF_ERROR(reader.Read(path));
  ConllSet set = reader.Take();
  if (!set.sentences.empty()) return set;
  return DataError(absl::StrJoin(paths, ", ") + ": holds no word; give a file with a word a line");
}

std::vector<std::string> TagsOf(const ConllSet& set) {
  std::set<std::string> others;
  for (const TaggedSentence& sentence : set.sentences) {
    others.insert(sentence.tags.begin(), sentence.tags.end());
  }
  others.erase("O");
  std::vector<std::string> tags = {"O"};
  tags.insert(tags.end(), others.begin(), others.end());
  return tags;
}

}  // namespace dtrain
