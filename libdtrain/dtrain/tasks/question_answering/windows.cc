// windows.cc - tokenizes contexts and questions in parallel, then makes windows and rows.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/windows.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/thread_pool.h"

namespace dtrain {
namespace {

constexpr int64_t kGrain = 16;  // texts per thread

Status CheckOptions(const SquadWindowOptions& options, int32_t special_tokens) {
  if (options.stride < 1 || options.max_question < 1) {
    return UsageError(
        absl::StrFormat("stride is %d and max_question is %d; both must be at least 1",
                        options.stride, options.max_question));
  }
  if (int64_t{options.max_length} < int64_t{options.max_question} + special_tokens + 1) {
    return UsageError(absl::StrFormat(
        "max_length is %d: a question of up to max_question = %d tokens and %d special "
        "tokens leave no room for the context; raise max_length or lower max_question",
        options.max_length, options.max_question, special_tokens));
  }
  return OkStatus();
}

// Tokens [first, last] of a context; empty if last < first.
struct TokenRange {
  int32_t first = 0;
  int32_t last = -1;
  bool empty() const { return last < first; }
};

// The tokens that overlap the answer's bytes.
TokenRange TokensOf(const SquadAnswer& answer, const std::vector<TokenSpan>& tokens) {
  const int64_t begin = answer.begin;
  const int64_t end = begin + static_cast<int64_t>(answer.text.size());
  // Begins and ends of tokens never decrease.
  const auto first = std::partition_point(tokens.begin(), tokens.end(),
                                          [&](const TokenSpan& t) { return t.end <= begin; });
  const auto behind =
      std::partition_point(first, tokens.end(), [&](const TokenSpan& t) { return t.begin < end; });
  return {static_cast<int32_t>(first - tokens.begin()),
          static_cast<int32_t>(behind - tokens.begin()) - 1};
}

void ForEach(size_t count, const std::function<void(size_t)>& body) {
  ParallelFor(static_cast<int64_t>(count), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(static_cast<size_t>(i));
  });
}

}  // namespace

class SquadWindows::Builder {
 public:
  Builder(const SquadSet& set, const TextTokenizer& tokenizer, const SquadWindowOptions& options)
      : set_(set), tokenizer_(tokenizer), form_(tokenizer.row()), options_(options) {}

  SquadWindows Build() {
    Tokenize();
    out_.has_types_ = form_.second_has_type1;
    out_.facts_.questions = static_cast<int64_t>(set_.questions.size());
    out_.offsets_ = {0};
    for (size_t q = 0; q < set_.questions.size(); ++q) {
      out_.question_offsets_.push_back(out_.size());
      out_.question_contexts_.push_back(set_.questions[q].context);
      AddWindows(q);
    }
    out_.question_offsets_.push_back(out_.size());
    out_.ids_.resize(static_cast<size_t>(out_.offsets_.back()));
    ForEach(out_.windows_.size(), [&](size_t i) { FillRow(i); });
    return std::move(out_);
  }

 private:
  void Tokenize() {
    context_ids_.resize(set_.contexts.size());
    out_.context_tokens_.resize(set_.contexts.size());
    ForEach(set_.contexts.size(), [&](size_t c) {
      tokenizer_.EncodeWithSpans(set_.contexts[c], context_ids_[c], out_.context_tokens_[c]);
    });
    question_ids_.resize(set_.questions.size());
    ForEach(set_.questions.size(), [&](size_t q) {
      std::vector<TokenSpan> unused;
      tokenizer_.EncodeWithSpans(set_.questions[q].text, question_ids_[q], unused);
    });
  }

  // Divides a context into windows like run_squad.py.
  void AddWindows(size_t q) {
    const SquadQuestion& question = set_.questions[q];
    const auto c = static_cast<size_t>(question.context);
    DT_CHECK_LT(c, set_.contexts.size());
    std::vector<int32_t>& question_ids = question_ids_[q];
    const auto max_question = static_cast<size_t>(options_.max_question);
    if (question_ids.size() > max_question) {
      question_ids.resize(max_question);
      ++out_.facts_.cut_questions;
    }
    TokenRange answer;
    const auto known =
        std::find_if(question.answers.begin(), question.answers.end(),
                     [](const SquadAnswer& a) { return a.begin != SquadAnswer::kNowhere; });
    if (known != question.answers.end()) {
      answer = TokensOf(*known, out_.context_tokens_[c]);
    }
    const bool has_label = question.is_impossible || !answer.empty();
    const auto question_size = static_cast<int32_t>(question_ids.size());
    const int32_t room = options_.max_length - question_size - form_.pair_size();
    const auto total = static_cast<int32_t>(context_ids_[c].size());
    bool is_shown = false;
    for (int32_t first = 0;;) {
      SquadWindow window{.question = static_cast<int64_t>(q),
                         .first_token = first,
                         .num_tokens = std::min(total - first, room),
                         .context_begin = question_size + form_.pair_size() -
                                          static_cast<int32_t>(form_.after.size()),
                         .has_label = has_label};
      if (!answer.empty() && answer.first >= first && answer.last < first + window.num_tokens) {
        window.start = window.context_begin + answer.first - first;
        window.end = window.context_begin + answer.last - first;
        is_shown = true;
      }
      out_.windows_.push_back(window);
      out_.lengths_.push_back(question_size + form_.pair_size() + window.num_tokens);
      out_.offsets_.push_back(out_.offsets_.back() + out_.lengths_.back());
      if (first + window.num_tokens == total) break;
      first += std::min(window.num_tokens, options_.stride);
    }
    out_.facts_.impossible += question.is_impossible;
    out_.facts_.unanswered += !has_label;
    out_.facts_.not_shown += !answer.empty() && !is_shown;
  }

  void FillRow(size_t i) {
    const SquadWindow& window = out_.windows_[i];
    const std::vector<int32_t>& question = question_ids_[static_cast<size_t>(window.question)];
    const int64_t context = set_.questions[static_cast<size_t>(window.question)].context;
    auto id = out_.ids_.begin() + out_.offsets_[i];
    id = std::ranges::copy(form_.before, id).out;
    id = std::ranges::copy(question, id).out;
    id = std::ranges::copy(form_.between, id).out;
    id = std::copy_n(context_ids_[static_cast<size_t>(context)].begin() + window.first_token,
                     window.num_tokens, id);
    std::ranges::copy(form_.after, id);
  }

  const SquadSet& set_;
  const TextTokenizer& tokenizer_;
  const RowForm& form_;
  const SquadWindowOptions& options_;
  std::vector<std::vector<int32_t>> context_ids_;
  std::vector<std::vector<int32_t>> question_ids_;
  SquadWindows out_;
};

StatusOr<SquadWindows> SquadWindows::Create(const SquadSet& set, const TextTokenizer& tokenizer,
                                            const SquadWindowOptions& options) {
  DT_RETURN_IF_ERROR(CheckOptions(options, tokenizer.row().pair_size()));
  return Builder(set, tokenizer, options).Build();
}

std::span<const int32_t> SquadWindows::ids(int64_t i) const {
  const auto at = static_cast<size_t>(i);
  return std::span(ids_).subspan(static_cast<size_t>(offsets_[at]),
                                 static_cast<size_t>(lengths_[at]));
}

SquadWindowRange SquadWindows::WindowsOf(int64_t question) const {
  DT_CHECK(question >= 0 && question < num_questions()) << "question " << question;
  const auto q = static_cast<size_t>(question);
  return {question_offsets_[q], question_offsets_[q + 1]};
}

std::span<const TokenSpan> SquadWindows::ContextTokens(int64_t question) const {
  const int64_t context = question_contexts_[static_cast<size_t>(question)];
  return context_tokens_[static_cast<size_t>(context)];
}

bool SquadWindows::IsMaxContext(int64_t window, int32_t token) const {
  const SquadWindowRange range = WindowsOf(this->window(window).question);
  int64_t best = -1;
  double best_score = 0.0;
  for (int64_t i = range.begin; i < range.end; ++i) {
    const SquadWindow& other = this->window(i);
    const int32_t left = token - other.first_token;
    const int32_t right = other.num_tokens - 1 - left;
    if (left < 0 || right < 0) continue;
    // Computed in double like in run_squad.py, because the rounding decides ties.
    const double score = std::min(left, right) + 0.01 * other.num_tokens;
    if (best < 0 || score > best_score) {
      best = i;
      best_score = score;
    }
  }
  return best == window;
}

}  // namespace dtrain
