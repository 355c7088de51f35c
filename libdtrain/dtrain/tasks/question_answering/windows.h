// windows.h - questions as rows for an encoder: [CLS] question [SEP] part of the context [SEP].
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const SquadWindows windows, SquadWindows::Create(set, tokenizer, {}));
//   for (int64_t i = 0; i < windows.size(); ++i) {
//     windows.ids(i), windows.type0_size(i), windows.window(i).start, windows.window(i).end ...
//   }
//
// A context that is too long for one row is divided into several overlapping windows, like in
// google-research/bert's run_squad.py, for training and for prediction.
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_WINDOWS_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_WINDOWS_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/question_answering/question_answering_model.h"
#include "dtrain/tasks/question_answering/squad_reader.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain {

struct SquadWindow {
  int64_t question = 0;       // index into SquadSet::questions
  int32_t first_token = 0;    // the context's token at row position `context_begin`
  int32_t num_tokens = 0;     // number of context tokens; 0 only if the context has none
  int32_t context_begin = 0;  // a row position
  // Row positions of the first known answer's first and last token. Both are 0, which is [CLS], if
  // there is no answer or the window does not contain all of it.
  int32_t start = 0;
  int32_t end = 0;
  // False if the question is not impossible but has no known answer. Such windows are not trained
  // on.
  bool has_label = false;
};

// Counts to report before training. All of them count questions.
struct SquadWindowFacts {
  int64_t questions = 0;
  int64_t cut_questions = 0;  // questions longer than max_question
  int64_t impossible = 0;
  int64_t unanswered = 0;  // not impossible, but without an answer that has tokens
  int64_t not_shown = 0;   // their answer is not contained in any single window
};

// A range of windows.
struct SquadWindowRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// All rows of a set in memory: 4 bytes per token, and 8 for each token of the contexts. Immutable.
class SquadWindows {
 public:
  // Creates all windows. The windows of a question are consecutive, in the order of the context,
  // and every question has at least one. Uses NumThreads() threads; the result does not depend on
  // their number. Returns UsageError if options are not positive, or leave no room for a context
  // after the longest question.
  static StatusOr<SquadWindows> Create(const SquadSet& set, const TextTokenizer& tokenizer,
                                       const SquadWindowOptions& options);

  int64_t size() const { return static_cast<int64_t>(windows_.size()); }
  const SquadWindow& window(int64_t i) const { return windows_[static_cast<size_t>(i)]; }
  // The row's ids. The first type0_size(i) have type 0.
  std::span<const int32_t> ids(int64_t i) const;
  int64_t type0_size(int64_t i) const {
    return has_types_ ? window(i).context_begin : lengths_[static_cast<size_t>(i)];
  }
  // Number of tokens in each row, including special ones.
  std::span<const int32_t> lengths() const { return lengths_; }

  int64_t num_questions() const { return facts_.questions; }
  const SquadWindowFacts& facts() const { return facts_; }
  SquadWindowRange WindowsOf(int64_t question) const;
  // The tokens of the question's context, as byte ranges of SquadSet::contexts.
  std::span<const TokenSpan> ContextTokens(int64_t question) const;

  // True if no other window of the question shows this token of the context (not a row position)
  // with more context around it. As in run_squad.py, the score is the number of tokens on the
  // shorter side plus a hundredth of the window's tokens; of equal windows the first wins. False if
  // the window does not contain the token.
  bool IsMaxContext(int64_t window, int32_t token) const;

 private:
  class Builder;
  SquadWindows() = default;

  std::vector<SquadWindow> windows_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> offsets_;  // [windows + 1], into ids_
  std::vector<int32_t> ids_;
  std::vector<int64_t> question_offsets_;  // [questions + 1], into windows_
  std::vector<int64_t> question_contexts_;
  std::vector<std::vector<TokenSpan>> context_tokens_;
  bool has_types_ = true;  // the context has type 1
  SquadWindowFacts facts_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_WINDOWS_H_
