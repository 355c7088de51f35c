// rows.h - sentences as rows for BERT: [CLS] pieces of the words [SEP].
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const TaggedRows rows, TaggedRows::Create(set, tags, tokenizer, 128));
//   const TaggingBatch batch = rows.Pack(chosen);
//
// Each word is tokenised alone. Its first piece stands for it. A sentence that is too long for one
// row is cut into several between two words.
#ifndef DTRAIN_TASKS_TOKEN_CLASSIFICATION_ROWS_H_
#define DTRAIN_TASKS_TOKEN_CLASSIFICATION_ROWS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/token_classification/batch.h"
#include "dtrain/tasks/token_classification/conll_reader.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain {

// All rows of a set, in memory. Immutable.
class TaggedRows {
 public:
  // `tags` are the tags that the model knows, by number. `max_length` counts [CLS] and [SEP].
  // DataError: the set has another tag.
  static StatusOr<TaggedRows> Create(const ConllSet& set, const std::vector<std::string>& tags,
                                     const TextTokenizer& tokenizer, int32_t max_length);

  int64_t size() const { return static_cast<int64_t>(lengths_.size()); }
  // Tokens of each row.
  std::span<const int32_t> lengths() const { return lengths_; }
  // The words of a row, counted through the whole set.
  int64_t first_word(int64_t row) const { return word_begins_[static_cast<size_t>(row)]; }
  int64_t num_words(int64_t row) const { return first_word(row + 1) - first_word(row); }
  // Words of which pieces were left out, because they are longer than a row.
  int64_t cut_words() const { return cut_words_; }

  TaggingBatch Pack(std::span<const uint32_t> rows) const;

 private:
  TaggedRows() = default;
  void EndRow(const TextTokenizer& tokenizer);

  std::vector<int32_t> ids_;                // of all rows
  std::vector<int64_t> begins_ = {0};       // [rows + 1] into ids_
  std::vector<int32_t> lengths_;            // [rows]
  std::vector<int64_t> word_begins_ = {0};  // [rows + 1]
  std::vector<int32_t> positions_;          // [words]: of its first piece within its row
  std::vector<float> tags_;                 // [words]
  int64_t cut_words_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_ROWS_H_
