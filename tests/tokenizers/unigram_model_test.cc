// unigram_model_test.cc - the best way through a text, against all ways, and how it breaks ties.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/unigram_model.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/tokenizers/internal/piece_trie.h"
#include "testing/catch.h"

namespace dtrain::internal {
namespace {

constexpr double kNoGap = std::numeric_limits<double>::infinity();

std::vector<int32_t> WayOf(const UnigramModel& model, std::string_view text, double& sum,
                           double& gap) {
  UnigramScratch scratch;
  std::vector<int32_t> ids;
  while (!text.empty()) {
    const size_t size = model.NextSegment(text, sum, gap, scratch);
    size_t total = 0;
    for (const UnigramStep& step : scratch.steps) {
      ids.push_back(step.id);
      total += step.size;
    }
    REQUIRE(total == size);
    text.remove_prefix(size);
  }
  return ids;
}

std::vector<int32_t> WayOf(const UnigramModel& model, std::string_view text) {
  double sum = 0.0;
  double gap = kNoGap;
  return WayOf(model, text, sum, gap);
}

// Piece 0 is the unknown one.
UnigramModel ModelOf(std::vector<std::string> surfaces, std::vector<double> scores) {
  surfaces.insert(surfaces.begin(), "");
  scores.insert(scores.begin(), 0.0);
  return UnigramModel({.surfaces = std::move(surfaces),
                       .scores = std::move(scores),
                       .unk_id = 0,
                       .unk_score = -20.0});
}

TEST_CASE("the trie finds all pieces that a text begins with, the shortest first") {
  const std::vector<std::string> pieces = {"abc", "", "a", "b", "ab", "abd", "\xFF\xFE", "\xFF"};
  const PieceTrie trie(pieces);
  std::vector<int32_t> ids;
  const auto take = [&](size_t size, int32_t id) {
    CHECK(pieces[static_cast<size_t>(id)].size() == size);
    ids.push_back(id);
  };
  trie.Walk("abcabd", take);
  CHECK(ids == std::vector<int32_t>{2, 4, 0});
  ids.clear();
  trie.Walk("\xFF\xFE\xFD", take);
  CHECK(ids == std::vector<int32_t>{7, 6});
  ids.clear();
  trie.Walk("xa", take);
  trie.Walk("", take);
  CHECK(ids.empty());
}

TEST_CASE("the trie holds thousands of pieces, also very long ones") {
  std::vector<std::string> pieces;
  for (int i = 0; i < 20000; ++i) {
    std::string piece = std::to_string(i) + ":";
    for (int k = 0; k < i % 7; ++k) piece += static_cast<char>('a' + (i * 31 + k * 17) % 26);
    pieces.push_back(piece);
  }
  pieces.push_back(std::string(100000, 'x'));
  const PieceTrie trie(pieces);
  for (size_t i = 0; i < pieces.size(); ++i) {
    bool is_found = false;
    trie.Walk(pieces[i], [&](size_t, int32_t id) { is_found |= id == static_cast<int32_t>(i); });
    REQUIRE(is_found);
  }
}

TEST_CASE("the way with the largest sum is taken") {
  const UnigramModel model = ModelOf({"a", "b", "ab", "abc", "c"}, {-1, -1, -1.5, -9, -2});
  CHECK(WayOf(model, "ab") == std::vector<int32_t>{3});
  CHECK(WayOf(model, "abc") == std::vector<int32_t>{3, 5});
  CHECK(WayOf(model, "abxc") == std::vector<int32_t>{3, 0, 5});
  CHECK(WayOf(model, "\xC3\xA4\xE4\xB8\xAD") == std::vector<int32_t>{0, 0});
}

TEST_CASE("of equal ways the one whose last piece is longest is taken") {
  const UnigramModel model = ModelOf({"a", "aa"}, {-1, -1});
  double sum = 0.0;
  double gap = kNoGap;
  CHECK(WayOf(model, "aaa", sum, gap) == std::vector<int32_t>{1, 2});
  CHECK(sum == -2.0);
  CHECK(gap == 0.0);  // "aa", "a" is as good
}

TEST_CASE("the gap says by how much the best way is better") {
  const UnigramModel model = ModelOf({"a", "b", "ab"}, {-1, -1, -1.75});
  double sum = -3.0;
  double gap = kNoGap;
  CHECK(WayOf(model, "ab", sum, gap) == std::vector<int32_t>{3});
  CHECK(sum == -4.75);
  CHECK(gap == 0.25);
}

TEST_CASE("sums rounded to single precision depend on what is before, within the bound") {
  UnigramScores scores{.surfaces = {"", "a", "b", "ab"},
                       .scores = {0.0, -1.0f, -1.0f, -2.0001f},
                       .unk_id = 0,
                       .unk_score = -20.0,
                       .rounds_sums = true};
  const UnigramModel model(scores);
  double sum = 0.0;
  double gap = kNoGap;
  CHECK(WayOf(model, "ab", sum, gap) == std::vector<int32_t>{1, 2});
  CHECK(gap > 2 * model.ErrorBound(0.0, 2));
  // Here a single-precision sum no longer knows the difference.
  sum = -10000.0;
  CHECK(WayOf(model, "ab", sum, gap) == std::vector<int32_t>{3});
  CHECK(gap <= 2 * model.ErrorBound(-10000.0, 2));
  CHECK(model.After(0.0, 0) == -20.0);
  CHECK(model.After(-10000.0, 3) == -10002.0);
}

// The best sum by trying all ways.
double BestSum(const std::vector<std::string>& pieces, const std::vector<double>& scores,
               std::string_view text) {
  if (text.empty()) return 0.0;
  double best = -std::numeric_limits<double>::infinity();
  bool is_piece = false;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!text.starts_with(pieces[i])) continue;
    is_piece |= pieces[i].size() == 1;
    best = std::max(best, scores[i] + BestSum(pieces, scores, text.substr(pieces[i].size())));
  }
  return is_piece ? best : std::max(best, -20.0 + BestSum(pieces, scores, text.substr(1)));
}

TEST_CASE("no way is better than the one that is found") {
  const std::vector<std::string> pieces = {"a", "b", "ab", "ba", "aab", "bb", "cab", "abcab", " a"};
  const std::vector<double> scores = {-2.5, -3, -4, -3.5, -5, -4.5, -6, -8, -2};
  const UnigramModel model = ModelOf(pieces, scores);
  for (int number = 0; number < 3000; ++number) {
    std::string text;
    for (int rest = number, i = 0; i < 7; ++i, rest /= 4) text += "abc "[rest % 4];
    double sum = 0.0;
    double gap = kNoGap;
    WayOf(model, text, sum, gap);
    INFO(text);
    REQUIRE(sum == Approx(BestSum(pieces, scores, text)));
    REQUIRE(gap >= 0.0);
  }
}

TEST_CASE("a model knows whether pieces reach over spaces") {
  CHECK(!ModelOf({" a", "b"}, {-1, -1}).has_inner_spaces());
  CHECK(ModelOf({" a b"}, {-1}).has_inner_spaces());
}

}  // namespace
}  // namespace dtrain::internal
