// rows.cc - pieces of words, and rows that they fill.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/rows.h"

#include <limits>
#include <map>
#include <string_view>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace dtrain {
namespace {

StatusOr<float> NumberOf(const std::map<std::string, size_t>& numbers, const std::string& tag,
                         const std::vector<std::string>& tags) {
  const auto found = numbers.find(tag);
  if (found != numbers.end()) return static_cast<float>(found->second);
  return DataError(absl::StrFormat(
      "the tag %s is not one of the model's (%s); name all tags in data.tags, or correct the file",
      tag, absl::StrJoin(tags, ", ")));
}

}  // namespace

StatusOr<TaggedRows> TaggedRows::Create(const ConllSet& set, const std::vector<std::string>& tags,
                                        const TextTokenizer& tokenizer, int32_t max_length) {
  std::map<std::string, size_t> numbers;
  for (size_t i = 0; i < tags.size(); ++i) numbers[tags[i]] = i;
  const auto room = static_cast<size_t>(max_length - tokenizer.row().single_size());
  TaggedRows rows;
  std::vector<int32_t> pieces;
  for (const TaggedSentence& sentence : set.sentences) {
    size_t filled = 0;  // pieces of the row
    for (size_t w = 0; w < sentence.words.size(); ++w) {
      pieces.clear();
      tokenizer.EncodeWord(sentence.words[w], pieces);
      if (pieces.empty()) pieces = {tokenizer.unk_id()};  // nothing but control characters
      if (pieces.size() > room) {
        pieces.resize(room);
        ++rows.cut_words_;
      }
      if (filled + pieces.size() > room) {
        rows.EndRow(tokenizer);
        filled = 0;
      }
      const std::vector<int32_t>& before = tokenizer.row().before;
      if (filled == 0) rows.ids_.insert(rows.ids_.end(), before.begin(), before.end());
      rows.positions_.push_back(static_cast<int32_t>(filled + before.size()));
      rows.ids_.insert(rows.ids_.end(), pieces.begin(), pieces.end());
      filled += pieces.size();
      float tag = std::numeric_limits<float>::quiet_NaN();
      if (!sentence.tags.empty()) {
        DT_ASSIGN_OR_RETURN(tag, NumberOf(numbers, sentence.tags[w], tags));
      }
      rows.tags_.push_back(tag);
    }
    rows.EndRow(tokenizer);
  }
  return rows;
}

void TaggedRows::EndRow(const TextTokenizer& tokenizer) {
  const std::vector<int32_t>& after = tokenizer.row().after;
  ids_.insert(ids_.end(), after.begin(), after.end());
  const auto end = static_cast<int64_t>(ids_.size());
  lengths_.push_back(static_cast<int32_t>(end - begins_.back()));
  begins_.push_back(end);
  word_begins_.push_back(static_cast<int64_t>(tags_.size()));
}

TaggingBatch TaggedRows::Pack(std::span<const uint32_t> rows) const {
  TaggingBatch batch;
  std::vector<int32_t> offsets = {0};
  for (const uint32_t row : rows) {
    const auto length = static_cast<size_t>(lengths_[row]);
    batch.AppendTokens(std::span(ids_).subspan(static_cast<size_t>(begins_[row]), length),
                       static_cast<int64_t>(length));
    for (auto word = static_cast<size_t>(word_begins_[row]);
         word < static_cast<size_t>(word_begins_[row + 1]); ++word) {
      batch.word_rows.push_back(offsets.back() + positions_[word]);
      batch.tags.push_back(tags_[word]);
    }
    batch.word_offsets.push_back(static_cast<int32_t>(batch.word_rows.size()));
    offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
  }
  batch.sequences = Sequences(std::move(offsets));
  return batch;
}

}  // namespace dtrain
