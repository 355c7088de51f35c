// windows.h - questions as rows for BERT: [CLS] question [SEP] part of the context [SEP].
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const SquadWindows windows, SquadWindows::Create(set, tokenizer, {}));
//   for (int64_t i = 0; i < windows.size(); ++i) {
//     windows.ids(i), windows.type0_size(i), windows.window(i).start, windows.window(i).end ...
//   }
//
// A context that is too long for one row is shown in several, which overlap: those of
// google-research/bert's run_squad.py, for training and for prediction alike.
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_WINDOWS_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_WINDOWS_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/question_answering/squad_reader.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain {

// In tokens.
struct SquadWindowOptions {
  int32_t max_length = 384;   // of a row, special tokens included
  int32_t stride = 128;       // how much later in the context the next window begins
  int32_t max_question = 64;  // longer questions lose their end
};

struct SquadWindow {
  int64_t question = 0;       // index into SquadSet::questions
  int32_t first_token = 0;    // the token of the context at row position `context_begin`
  int32_t num_tokens = 0;     // of the context; 0 only where the whole context has none
  int32_t context_begin = 0;  // row position
  // Row positions of the first known answer's first and last token. 0 and 0, which is [CLS], where
  // there is none or the window does not show the whole of it.
  int32_t start = 0;
  int32_t end = 0;
  // Whether to train on: false where a question that is not impossible has no known answer.
  bool has_label = false;
};

// What to report before training. All but `questions` count questions too.
struct SquadWindowFacts {
  int64_t questions = 0;
  int64_t cut_questions = 0;  // longer than max_question
  int64_t impossible = 0;
  int64_t unanswered = 0;  // neither impossible nor with an answer that has tokens
  int64_t not_shown = 0;   // their answer is whole in no window
};

// Begin and end of a range of windows.
struct SquadWindowRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// All rows of a set, in memory: 4 bytes a token, and 8 for each token of the contexts. Immutable.
class SquadWindows {
 public:
  // The windows of a question stand together, in the order of the context; every question has one
  // at least. Runs on NumThreads() threads, on which nothing depends. UsageError where the options
  // leave no room for a context beside the longest question, or are not positive.
  static StatusOr<SquadWindows> Create(const SquadSet& set, const WordPieceTokenizer& tokenizer,
                                       const SquadWindowOptions& options);

  int64_t size() const { return static_cast<int64_t>(windows_.size()); }
  const SquadWindow& window(int64_t i) const { return windows_[static_cast<size_t>(i)]; }
  // The row, of which the first type0_size(i) tokens are of type 0.
  std::span<const int32_t> ids(int64_t i) const;
  int64_t type0_size(int64_t i) const { return window(i).context_begin; }
  // Tokens of each row, special ones included.
  std::span<const int32_t> lengths() const { return lengths_; }

  int64_t num_questions() const { return facts_.questions; }
  const SquadWindowFacts& facts() const { return facts_; }
  SquadWindowRange WindowsOf(int64_t question) const;
  // The tokens of the question's context: bytes of SquadSet::contexts.
  std::span<const TokenSpan> ContextTokens(int64_t question) const;

  // Whether no other window of the question shows that token of the context (not row position) with
  // more context around it: as run_squad.py scores it, the tokens on the poorer side and a
  // hundredth of the window's. Of equal windows the first; false where the window lacks the token.
  bool IsMaxContext(int64_t window, int32_t token) const;

 private:
  class Builder;
  SquadWindows() = default;

  std::vector<SquadWindow> windows_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> offsets_;  // [windows + 1] into ids_
  std::vector<int32_t> ids_;
  std::vector<int64_t> question_offsets_;  // [questions + 1] into windows_
  std::vector<int64_t> question_contexts_;
  std::vector<std::vector<TokenSpan>> context_tokens_;
  SquadWindowFacts facts_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_WINDOWS_H_
