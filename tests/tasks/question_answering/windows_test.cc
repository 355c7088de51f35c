// windows_test.cc - rows of questions and contexts are those of run_squad.py's rules.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/windows.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/base/thread_pool.h"
#include "testing/catch.h"
#include "testing/letter_tokenizer.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Ids = std::vector<int32_t>;
constexpr int32_t kCls = 1;
constexpr int32_t kSep = 2;

SquadQuestion QuestionOf(const std::string& text, const std::vector<SquadAnswer>& answers,
                         int64_t context = 0) {
  return {.id = text, .text = text, .context = context, .answers = answers};
}

SquadWindows Create(const SquadSet& set, const SquadWindowOptions& options) {
  return SquadWindows::Create(set, testing::LetterTokenizer(), options).value();
}

Ids RowOf(const SquadWindows& windows, int64_t i) {
  return {windows.ids(i).begin(), windows.ids(i).end()};
}

TEST_CASE("a context that fits is one row") {
  SquadSet set;
  set.contexts = {"b CD e"};
  set.questions = {QuestionOf("a b", {{"CD", 2}})};
  const SquadWindows windows = Create(set, {});
  REQUIRE(windows.size() == 1);
  CHECK(RowOf(windows, 0) == Ids{kCls, 3, 4, kSep, 4, 5, 32, 7, kSep});
  CHECK(windows.type0_size(0) == 4);
  CHECK(windows.lengths()[0] == 9);
  const SquadWindow& window = windows.window(0);
  CHECK(window.question == 0);
  CHECK(window.first_token == 0);
  CHECK(window.num_tokens == 4);
  CHECK(window.context_begin == 4);
  CHECK(window.start == 5);
  CHECK(window.end == 6);
  CHECK(window.has_label);
  const auto tokens = windows.ContextTokens(0);
  REQUIRE(tokens.size() == 4);
  CHECK(tokens[2] == TokenSpan{3, 4});
}

TEST_CASE("an answer has the tokens it overlaps") {
  SquadSet set;
  set.contexts = {"ab xyz! c"};
  set.questions = {QuestionOf("q", {{"b x", 1}}), QuestionOf("r", {{"! ", 6}}),
                   QuestionOf("s", {{"c", 8}, {"a", 0}}), QuestionOf("t", {{" ", 2}})};
  const SquadWindows windows = Create(set, {});  // a ##b x ##y ##z [UNK] c from position 3 on
  REQUIRE(windows.size() == 4);
  const auto place = [&](int64_t i) {
    return std::pair(windows.window(i).start, windows.window(i).end);
  };
  CHECK(place(0) == std::pair(4, 5));
  CHECK(place(1) == std::pair(8, 8));
  CHECK(place(2) == std::pair(9, 9));
  CHECK(place(3) == std::pair(0, 0));
  CHECK_FALSE(windows.window(3).has_label);
  CHECK(windows.facts().unanswered == 1);
}

TEST_CASE("the first answer whose place is known is learned from") {
  SquadSet set;
  set.contexts = {"ab c"};
  set.questions = {QuestionOf("q", {{"z", SquadAnswer::kNowhere}, {"c", 3}}),
                   QuestionOf("r", {{"z", SquadAnswer::kNowhere}})};
  const SquadWindows windows = Create(set, {});
  CHECK(windows.window(0).start == 5);
  CHECK(windows.window(0).has_label);
  CHECK_FALSE(windows.window(1).has_label);
  CHECK(windows.facts().unanswered == 1);
}

TEST_CASE("questions are cut at their end, and what cannot be trained on is counted") {
  SquadSet set;
  set.contexts = {"a b c d e f g h", "\x01"};
  set.questions = {QuestionOf("a b c d e", {}), QuestionOf("x", {{"c d e f", 4}}),
                   QuestionOf("y", {}), QuestionOf("z", {}, 1)};
  set.questions[2].is_impossible = true;
  const SquadWindows windows = Create(set, {.max_length = 7, .stride = 2, .max_question = 3});
  CHECK(windows.facts().questions == 4);
  CHECK(windows.facts().cut_questions == 1);
  CHECK(windows.facts().impossible == 1);
  CHECK(windows.facts().unanswered == 2);
  CHECK(windows.facts().not_shown == 1);  // four tokens in windows of three
  CHECK(RowOf(windows, 0) == Ids{kCls, 3, 4, 5, kSep, 3, kSep});
  CHECK_FALSE(windows.window(0).has_label);
  CHECK(windows.window(windows.WindowsOf(1).begin).has_label);
  CHECK(windows.window(windows.WindowsOf(2).begin).has_label);
  const SquadWindowRange empty = windows.WindowsOf(3);  // a context without tokens
  CHECK(empty.end - empty.begin == 1);
  CHECK(RowOf(windows, empty.begin) == Ids{kCls, 28, kSep, kSep});
}

TEST_CASE("a text cannot make special tokens") {
  SquadSet set;
  set.contexts = {"a [SEP] b"};
  set.questions = {QuestionOf("[CLS]", {})};
  const WordPieceTokenizer tokenizer =
      WordPieceTokenizer::FromVocabulary({"[UNK]", "[CLS]", "[SEP]", "a", "b"},
                                         {.behavior = WordPieceBehavior::kHuggingFace})
          .value();
  const SquadWindows windows = SquadWindows::Create(set, tokenizer, {}).value();
  CHECK(RowOf(windows, 0) == Ids{kCls, 0, 0, 0, kSep, 3, 0, 0, 0, 4, kSep});
}

// The rules of run_squad.py, as it states them: for the spans of one context, and its answer.
struct DocSpan {
  int32_t start, length;
};
std::vector<DocSpan> DocSpans(int32_t num_tokens, int32_t max_tokens, int32_t doc_stride) {
  std::vector<DocSpan> spans;
  int32_t offset = 0;
  while (offset < num_tokens) {
    const int32_t length = std::min(num_tokens - offset, max_tokens);
    spans.push_back({offset, length});
    if (offset + length == num_tokens) break;
    offset += std::min(length, doc_stride);
  }
  return spans;
}
size_t BestSpan(const std::vector<DocSpan>& spans, int32_t position) {
  std::map<double, size_t> first_with_score;
  for (size_t i = 0; i < spans.size(); ++i) {
    const int32_t end = spans[i].start + spans[i].length - 1;
    if (position < spans[i].start || position > end) continue;
    const double score =
        std::min(position - spans[i].start, end - position) + 0.01 * spans[i].length;
    first_with_score.emplace(score, i);
  }
  return first_with_score.rbegin()->second;
}

TEST_CASE("windows, answers and best contexts are run_squad.py's for contexts of all lengths") {
  RandomStream random({.seed = 11});
  for (int32_t tokens = 1; tokens <= 40; ++tokens) {
    SquadSet set;
    std::string context;
    for (int32_t i = 0; i < tokens; ++i) context += "a ";
    set.contexts = {context};
    const auto first = static_cast<int32_t>(random.NextBelow(static_cast<uint32_t>(tokens)));
    const auto count = 1 + static_cast<int32_t>(random.NextBelow(4));
    const int32_t last = std::min(first + count, tokens) - 1;
    std::string answer = "a";
    for (int32_t i = first; i < last; ++i) answer += " a";
    set.questions = {QuestionOf("q r", {{answer, 2 * first}})};
    for (const int32_t stride : {1, 2, 3, 5, 7, 9, 30}) {
      const SquadWindowOptions options{.max_length = 14, .stride = stride, .max_question = 4};
      const SquadWindows windows = Create(set, options);
      const std::vector<DocSpan> spans = DocSpans(tokens, 14 - 2 - 3, stride);
      INFO(tokens << " tokens, stride " << stride);
      REQUIRE(windows.size() == static_cast<int64_t>(spans.size()));
      for (size_t i = 0; i < spans.size(); ++i) {
        const SquadWindow& window = windows.window(static_cast<int64_t>(i));
        const int32_t end = spans[i].start + spans[i].length;
        REQUIRE(window.first_token == spans[i].start);
        REQUIRE(window.num_tokens == spans[i].length);
        REQUIRE(windows.lengths()[i] == 5 + spans[i].length);
        const bool shown = first >= spans[i].start && last < end;
        REQUIRE(window.start == (shown ? first - spans[i].start + 4 : 0));
        REQUIRE(window.end == (shown ? last - spans[i].start + 4 : 0));
        for (int32_t t = -1; t <= tokens; ++t) {
          const bool best = t >= 0 && t < tokens && BestSpan(spans, t) == i;
          REQUIRE(windows.IsMaxContext(static_cast<int64_t>(i), t) == best);
        }
      }
    }
  }
}

TEST_CASE("rows do not depend on the number of threads") {
  RandomStream random({.seed = 5});
  SquadSet set;
  for (int64_t c = 0; c < 50; ++c) {
    std::string context;
    const uint32_t letters = 20 + random.NextBelow(60);
    for (uint32_t i = 0; i < letters; ++i) {
      context += static_cast<char>('a' + random.NextBelow(26));
      if (random.NextBelow(3) == 0) context += ' ';
    }
    set.contexts.push_back(context);
    set.questions.push_back(QuestionOf("what is " + context.substr(0, 8), {{"x", c % 10}}, c));
  }
  const SquadWindowOptions options{.max_length = 30, .stride = 7, .max_question = 20};
  const int threads = NumThreads();
  SetNumThreads(1);
  const SquadWindows one = Create(set, options);
  SetNumThreads(3);
  const SquadWindows three = Create(set, options);
  SetNumThreads(threads);
  REQUIRE(one.size() == three.size());
  REQUIRE(one.size() > 100);
  for (int64_t i = 0; i < one.size(); ++i) {
    CHECK(RowOf(one, i) == RowOf(three, i));
    CHECK(one.window(i).start == three.window(i).start);
  }
}

TEST_CASE("options that leave no room for the context are refused") {
  SquadSet set;
  set.contexts = {"a"};
  set.questions = {QuestionOf("a", {})};
  const auto code = [&](const SquadWindowOptions& options) {
    return SquadWindows::Create(set, testing::LetterTokenizer(), options).status().code();
  };
  CHECK(code({.max_length = 68, .max_question = 64}) == ExitCode::kDone);
  CHECK(code({.max_length = 67, .max_question = 64}) == ExitCode::kUsage);
  CHECK(code({.stride = 0}) == ExitCode::kUsage);
  CHECK(code({.max_question = 0}) == ExitCode::kUsage);
  CHECK(code({.max_length = -5, .max_question = INT32_MAX}) == ExitCode::kUsage);
}

TEST_CASE("answers of real questions are found again in their rows") {
  const auto squad = testing::SharedPath("data/squad/squad_dev.json");
  const auto vocabulary = testing::SharedPath("data/vocab/bert-base-uncased-vocab.txt");
  if (!squad || !vocabulary) return;
  const SquadSet set = ReadSquad({squad->string()}, SquadAnswers::kRequired).value();
  const WordPieceTokenizer tokenizer = WordPieceTokenizer::Load(vocabulary->string()).value();
  const SquadWindows windows = SquadWindows::Create(set, tokenizer, {}).value();
  CHECK(windows.facts().unanswered == 0);
  CHECK(windows.facts().not_shown == 0);
  int64_t shown = 0;
  int64_t exact = 0;
  for (int64_t i = 0; i < windows.size(); ++i) {
    const SquadWindow& window = windows.window(i);
    if (window.start == 0) continue;
    ++shown;
    const SquadQuestion& question = set.questions[static_cast<size_t>(window.question)];
    const std::span<const TokenSpan> tokens = windows.ContextTokens(window.question);
    const auto token_at = [&](int32_t position) {
      const int32_t token = window.first_token + position - window.context_begin;
      return tokens[static_cast<size_t>(token)];
    };
    const TokenSpan first = token_at(window.start);
    const TokenSpan last = token_at(window.end);
    const SquadAnswer& answer = question.answers[0];
    CHECK(first.begin <= answer.begin);
    CHECK(last.end >= answer.begin + static_cast<int64_t>(answer.text.size()));
    exact += first.begin == answer.begin &&
             last.end == answer.begin + static_cast<int64_t>(answer.text.size());
  }
  CHECK(shown >= windows.num_questions());
  CHECK(exact >= shown * 98 / 100);
}

}  // namespace
}  // namespace dtrain
