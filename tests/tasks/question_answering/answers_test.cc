// answers_test.cc - logits become answers by run_squad.py's rules, one test for each.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/answers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/letter_tokenizer.h"

namespace dtrain {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One question, of one token, about one context: in each row the context begins at position 3. Its
// logits are 0 until they are set.
struct Case {
  explicit Case(const std::string& context, const SquadWindowOptions& options = {}) {
    set.contexts = {context};
    set.questions = {{.id = "q", .text = "q", .context = 0, .answers = {}}};
    windows.emplace(SquadWindows::Create(set, testing::LetterTokenizer(), options).value());
    for (const int32_t length : windows->lengths()) {
      start.emplace_back(static_cast<size_t>(length));
      end.emplace_back(static_cast<size_t>(length));
    }
  }
  SquadPrediction Answer(const SquadAnswerOptions& options = {}) const {
    std::vector<SquadLogits> logits;
    for (size_t i = 0; i < start.size(); ++i) logits.push_back({start[i], end[i]});
    return AnswerOf(set, *windows, 0, logits, options);
  }

  SquadSet set;
  std::optional<SquadWindows> windows;
  std::vector<std::vector<float>> start, end;  // of each window
};

std::vector<std::string> TextsOf(const SquadPrediction& prediction) {
  std::vector<std::string> texts;
  for (const SquadCandidate& candidate : prediction.candidates) texts.push_back(candidate.text);
  return texts;
}

TEST_CASE("the answer is what stands in the context between the best start and end") {
  Case c("It was  Not-so caf\u00e9");  // i t|w a s|n o t - s o|c a f e
  c.start[0][3 + 5] = 4.0f;
  c.end[0][3 + 7] = 3.0f;
  const SquadPrediction prediction = c.Answer();
  CHECK(prediction.text == "Not");
  CHECK(prediction.candidates[0].text == "Not");
  CHECK(prediction.candidates[0].start_logit == 4.0);
  CHECK(prediction.candidates[0].end_logit == 3.0);
  CHECK(prediction.null_odds == 0.0);
  c.end[0][3 + 14] = 5.0f;
  CHECK(c.Answer().text == "Not-so caf\u00e9");
}

TEST_CASE("only the best starts and ends of a window are paired, wherever they stand") {
  Case c("a b c");
  c.start[0] = {9, 8, 7, 1, 0, 2, 6};  // [CLS] q [SEP] a b c [SEP]
  c.end[0] = {9, 8, 7, 1, 0, 2, 6};
  CHECK(c.Answer({.n_best = 4}).text.empty());
  CHECK(TextsOf(c.Answer({.n_best = 5})) == std::vector<std::string>{"c"});
  CHECK(TextsOf(c.Answer({.n_best = 6})) == std::vector<std::string>{"c", "a b c", "a"});
}

TEST_CASE("ends before starts, and answers that are too long, are dropped") {
  Case c("a b c d");
  c.start[0][3 + 2] = 9.5f;
  c.end[0][3 + 0] = 9.0f;
  c.end[0][3 + 3] = 1.0f;
  CHECK(c.Answer().text == "c d");
  CHECK(c.Answer({.max_answer_length = 1}).text == "c");
  c.start[0][3 + 0] = 20.0f;
  CHECK(c.Answer({.max_answer_length = 2}).text == "a");
  c.end[0][3 + 3] = 30.0f;
  CHECK(c.Answer({.max_answer_length = 3}).text == "c d");
  CHECK(c.Answer({.max_answer_length = 4}).text == "a b c d");
}

TEST_CASE("a start counts only in the window with most context around it") {
  // Windows a b c d and c d e f: of d the second one shows more on its poorer side.
  Case c("a b c d e f", {.max_length = 8, .stride = 2, .max_question = 1});
  REQUIRE(c.windows->size() == 2);
  c.start[0][3 + 3] = 9.0f;
  c.start[1][3 + 1] = 3.0f;
  c.end[1][3 + 2] = 3.0f;
  CHECK(c.Answer().text == "d e");
  c.start[0][3 + 1] = 8.0f;  // b is shown by the first window alone
  CHECK(c.Answer().text == "b");
}

TEST_CASE("the same text is kept once, with its best score") {
  Case c("ab x ab");
  c.start[0][3 + 0] = 2.0f;
  c.end[0][3 + 1] = 2.0f;
  c.start[0][3 + 3] = 3.0f;
  c.end[0][3 + 4] = 3.0f;
  const SquadPrediction prediction = c.Answer({.n_best = 20, .max_answer_length = 2});
  const std::vector<std::string> texts = TextsOf(prediction);
  CHECK(texts[0] == "ab");
  CHECK(prediction.candidates[0].start_logit == 3.0);
  CHECK(std::set<std::string>(texts.begin(), texts.end()).size() == texts.size());
}

TEST_CASE("of equal scores the earlier window, start and end come first") {
  Case c("a b c");
  CHECK(TextsOf(c.Answer()) == std::vector<std::string>{"a", "a b", "a b c", "b", "b c", "c"});
  CHECK(TextsOf(c.Answer({.n_best = 7, .max_answer_length = 1})) ==
        std::vector<std::string>{"a", "b", "c"});
  Case two("a b c d e f", {.max_length = 7, .stride = 3, .max_question = 1});
  CHECK(two.Answer({.max_answer_length = 1}).candidates[0].text == "a");
  two.start[1][3 + 0] = two.start[0][3 + 2] = 1.0f;
  CHECK(TextsOf(two.Answer({.max_answer_length = 1}))[0] == "c");
}

TEST_CASE("probabilities are a softmax over what is kept") {
  Case c("a b");
  c.start[0] = {0, 0, 0, 1000.0f, 999.0f, 0};
  c.end[0] = {0, 0, 0, 2.0f, 2.5f, 0};
  const SquadPrediction prediction = c.Answer();
  REQUIRE(TextsOf(prediction) == std::vector<std::string>{"a b", "a", "b"});
  const double sum = 1.0 + std::exp(-0.5) + std::exp(-1.0);
  CHECK(prediction.candidates[0].probability == Approx(1.0 / sum).epsilon(1e-14));
  CHECK(prediction.candidates[1].probability == Approx(std::exp(-0.5) / sum).epsilon(1e-14));
  CHECK(prediction.candidates[2].probability == Approx(std::exp(-1.0) / sum).epsilon(1e-14));
}

TEST_CASE("where nothing is left the answer is empty, with logits of 0") {
  const SquadPrediction prediction = Case("\x01").Answer();  // a context without tokens
  CHECK(prediction.text.empty());
  REQUIRE(prediction.candidates.size() == 1);
  CHECK(prediction.candidates[0].text.empty());
  CHECK(prediction.candidates[0].probability == 1.0);
  CHECK(prediction.candidates[0].start_logit == 0.0);
  const SquadPrediction none = Case("\x01").Answer({.allow_none = true});
  CHECK(none.text.empty());
  CHECK(none.candidates.size() == 1);
  CHECK(none.null_odds == 0.0);
}

TEST_CASE("a question without answer is one whose lowest null score beats the best text") {
  Case c("a b c d e f", {.max_length = 7, .stride = 3, .max_question = 1});
  REQUIRE(c.windows->size() == 2);
  c.start[0][0] = 5.0f;
  c.end[0][0] = 6.0f;
  c.start[1][0] = 1.0f;  // the least sure window counts
  c.end[1][0] = 2.5f;
  c.start[1][3 + 1] = 1.5f;
  c.end[1][3 + 1] = 1.0f;
  const SquadPrediction prediction = c.Answer({.allow_none = true});
  CHECK(prediction.null_odds == 1.0);
  CHECK(prediction.text.empty());
  REQUIRE(prediction.candidates.size() > 2);
  CHECK(prediction.candidates[0].text.empty());
  CHECK(prediction.candidates[0].start_logit == 1.0);
  CHECK(prediction.candidates[0].end_logit == 2.5);
  CHECK(prediction.candidates[1].text == "e");
  CHECK(c.Answer({.null_threshold = 0.75f, .allow_none = true}).text.empty());
  CHECK(c.Answer({.null_threshold = 1.0f, .allow_none = true}).text == "e");
  CHECK(c.Answer().text == "e");
  CHECK(c.Answer().candidates[0].text == "e");
}

TEST_CASE("no answer is among the candidates even where it is not among the best") {
  Case c("a b c");
  c.start[0] = {-3, 0, 0, 2, 1, 0, 0};
  c.end[0] = {-3, 0, 0, 2, 1, 0, 0};
  const SquadPrediction prediction = c.Answer({.n_best = 2, .allow_none = true});
  CHECK(TextsOf(prediction) == std::vector<std::string>{"a", "a b", ""});
  CHECK(prediction.candidates.back().start_logit == -3.0);
  CHECK(prediction.null_odds == -10.0);
  CHECK(TextsOf(c.Answer({.allow_none = true})).back().empty());
  // Behind texts of its own score.
  Case equal("a");
  CHECK(TextsOf(equal.Answer({.allow_none = true})) == std::vector<std::string>{"a", ""});
  CHECK(equal.Answer({.allow_none = true}).text == "a");
}

TEST_CASE("logits that are not finite are passed over") {
  Case c("a b c");
  c.start[0] = {NAN, 0, 0, NAN, 1.0f, kInfinity, 0};
  c.end[0] = {NAN, 0, 0, 0, 1.0f, NAN, -kInfinity};
  const SquadPrediction prediction = c.Answer({.allow_none = true});
  CHECK(TextsOf(prediction) == std::vector<std::string>{"b", ""});
  CHECK(std::isfinite(prediction.null_odds));
  CHECK(prediction.text.empty());
  for (const SquadCandidate& candidate : prediction.candidates) {
    CHECK(std::isfinite(candidate.probability));
  }
}

// run_squad.py's loop, plainly: every pair of positions, sorted by score.
std::vector<std::pair<std::string, double>> PlainAnswers(const Case& c, size_t n_best,
                                                         int32_t max_length) {
  struct Found {
    double score;
    std::string text;
  };
  std::vector<Found> found;
  const auto best = [&](const std::vector<float>& logits) {
    std::vector<std::pair<float, int32_t>> all;
    for (size_t i = 0; i < logits.size(); ++i) {
      all.emplace_back(-logits[i], static_cast<int32_t>(i));
    }
    std::sort(all.begin(), all.end());
    all.resize(std::min(n_best, all.size()));
    std::set<int32_t> positions;
    for (const auto& [logit, position] : all) positions.insert(position);
    return positions;
  };
  for (int64_t w = 0; w < c.windows->size(); ++w) {
    const auto at = static_cast<size_t>(w);
    const SquadWindow& window = c.windows->window(w);
    for (const int32_t start : best(c.start[at])) {
      for (const int32_t end : best(c.end[at])) {
        const int32_t token = start - 3 + window.first_token;
        if (start < 3 || end >= 3 + window.num_tokens || end < start) continue;
        if (start >= 3 + window.num_tokens || end - start + 1 > max_length) continue;
        if (!c.windows->IsMaxContext(w, token)) continue;
        const double score = double{c.start[at][static_cast<size_t>(start)]} +
                             double{c.end[at][static_cast<size_t>(end)]};
        // Tokens are single letters with a space between.
        const size_t begin = size_t{2} * static_cast<size_t>(token);
        const size_t size = size_t{2} * static_cast<size_t>(end - start) + 1;
        found.push_back({score, c.set.contexts[0].substr(begin, size)});
      }
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.score > b.score; });
  std::vector<std::pair<std::string, double>> answers;
  for (const Found& f : found) {
    if (answers.size() == n_best) break;
    const bool seen = std::any_of(answers.begin(), answers.end(),
                                  [&](const auto& answer) { return answer.first == f.text; });
    if (!seen) answers.emplace_back(f.text, f.score);
  }
  return answers;
}

TEST_CASE("answers from random logits are those of the plain loop") {
  RandomStream random({.seed = 4});
  for (int n = 0; n < 100; ++n) {
    std::string context;
    const uint32_t tokens = 1 + random.NextBelow(30);
    for (uint32_t i = 0; i < tokens; ++i) {
      if (i > 0) context += ' ';
      context += static_cast<char>('a' + random.NextBelow(4));
    }
    Case c(context, {.max_length = 4 + static_cast<int32_t>(1 + random.NextBelow(10)),
                     .stride = 1 + static_cast<int32_t>(random.NextBelow(6)),
                     .max_question = 1});
    for (size_t w = 0; w < c.start.size(); ++w) {
      // Few values, so that scores are often equal.
      for (float& logit : c.start[w]) logit = static_cast<float>(random.NextBelow(6));
      for (float& logit : c.end[w]) logit = static_cast<float>(random.NextBelow(6));
    }
    const SquadPrediction prediction = c.Answer({.n_best = 6, .max_answer_length = 4});
    const auto expected = PlainAnswers(c, 6, 4);
    INFO("case " << n << ": " << context);
    if (expected.empty()) {
      CHECK(TextsOf(prediction) == std::vector<std::string>{""});
      continue;
    }
    REQUIRE(prediction.candidates.size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(prediction.candidates[i].text == expected[i].first);
      CHECK(prediction.candidates[i].start_logit + prediction.candidates[i].end_logit ==
            expected[i].second);
    }
    CHECK(prediction.text == expected[0].first);
  }
}

TEST_CASE("predictions are written in the order of the data") {
  const TemporaryFolder folder;
  SquadSet set;
  set.questions = {{.id = "z\"1", .text = {}, .answers = {}},
                   {.id = "a", .text = {}, .answers = {}}};
  std::vector<SquadPrediction> predictions(2);
  predictions[0] = {.text = "caf\u00e9 \"x\"\n",
                    .candidates = {{"caf\u00e9 \"x\"\n", 0.75, 1.5, -2.0}, {"", 0.25, 0.0, 1.0}},
                    .null_odds = -1.5};
  predictions[1] = {.text = "", .candidates = {{"", 1.0, 0.0, 0.0}}, .null_odds = 0.1};
  const std::string out = folder.File("new/folder");
  REQUIRE(WriteSquadPredictions(out, set, predictions, /*with_null_odds=*/true).ok());
  CHECK(ReadTestFile(out + "/predictions.json") ==
        "{\n    \"z\\\"1\": \"caf\u00e9 \\\"x\\\"\\n\",\n    \"a\": \"\"\n}\n");
  CHECK(ReadTestFile(out + "/null_odds.json") == "{\n    \"z\\\"1\": -1.5,\n    \"a\": 0.1\n}\n");
  // Those of other predictions do not stay beside these.
  REQUIRE(WriteSquadPredictions(out, set, predictions, /*with_null_odds=*/false).ok());
  CHECK_FALSE(std::filesystem::exists(out + "/null_odds.json"));
  const std::string n_best = ReadTestFile(out + "/nbest_predictions.json");
  CHECK(n_best == nlohmann::ordered_json::parse(n_best).dump(4) + "\n");
  const auto json = nlohmann::ordered_json::parse(n_best);
  CHECK(json.begin().key() == "z\"1");
  CHECK(json["z\"1"][0]["text"] == "caf\u00e9 \"x\"\n");
  CHECK(json["z\"1"][0]["probability"] == 0.75);
  CHECK(json["z\"1"][0]["start_logit"] == 1.5);
  CHECK(json["z\"1"][0]["end_logit"] == -2.0);
  CHECK(json["z\"1"].size() == 2);

  REQUIRE(WriteSquadPredictions(folder.path(), set, predictions, false).ok());
  CHECK_FALSE(std::filesystem::exists(folder.File("null_odds.json")));
  const std::string file = folder.Write("file", "");
  CHECK(WriteSquadPredictions(file, set, predictions, false).code() == ExitCode::kStorage);
}

}  // namespace
}  // namespace dtrain
