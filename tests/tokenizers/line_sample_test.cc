// line_sample_test.cc - lines drawn by chance: which, how many, and each with the same chance.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/line_sample.h"

#include <algorithm>
#include <string>
#include <vector>

#include "testing/catch.h"

namespace dtrain {
namespace {

using Lines = std::vector<std::string>;

LineSource SourceOf(const Lines& lines, size_t batch) {
  return [&lines, batch, next = size_t{0}](Lines& out) mutable {
    while (out.size() < batch && next < lines.size()) out.push_back(lines[next++]);
    return OkStatus();
  };
}

Lines Draw(const Lines& lines, int64_t count, uint64_t seed, size_t batch = 7) {
  const LineSource drawn = SampleLines(SourceOf(lines, batch), count, seed).value();
  Lines first;
  REQUIRE(drawn(first).ok());
  Lines then;
  REQUIRE(drawn(then).ok());
  CHECK(then.empty());
  return first;
}

Lines Numbers(int count) {
  Lines lines;
  for (int i = 0; i < count; ++i) lines.push_back(std::to_string(i));
  return lines;
}

TEST_CASE("the same seed draws the same lines, whatever the batches; another seed draws others") {
  const Lines lines = Numbers(1000);
  const Lines drawn = Draw(lines, 50, 1);
  CHECK(drawn.size() == 50);
  CHECK(Draw(lines, 50, 1, 1000) == drawn);
  CHECK(Draw(lines, 50, 1, 1) == drawn);
  CHECK(Draw(lines, 50, 2) != drawn);
  Lines distinct = drawn;
  std::sort(distinct.begin(), distinct.end());
  CHECK(std::unique(distinct.begin(), distinct.end()) == distinct.end());
}

TEST_CASE("a text with fewer lines is taken whole, and blank lines are never drawn") {
  const Lines lines = {"a", "", "b", " \t", "c", "\u200b"};
  CHECK(Draw(lines, 100, 1) == Lines{"a", "b", "c"});
  CHECK(Draw(lines, 3, 1) == Lines{"a", "b", "c"});
  CHECK(Draw({"", " "}, 3, 1).empty());
}

TEST_CASE("each line is drawn equally often, the first as the last") {
  const Lines lines = Numbers(40);
  std::vector<int> times(40);
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    for (const std::string& line : Draw(lines, 10, seed)) {
      ++times[static_cast<size_t>(std::stoi(line))];
    }
  }
  // 1000 on average with a standard deviation of 27.
  CHECK(*std::min_element(times.begin(), times.end()) > 1000 - 5 * 27);
  CHECK(*std::max_element(times.begin(), times.end()) < 1000 + 5 * 27);
}

TEST_CASE("the error of the text is the error of the draw") {
  const LineSource source = [](Lines&) { return DataError("wiki.txt: gone"); };
  CHECK(SampleLines(source, 3, 1).status().message() == "wiki.txt: gone");
}

}  // namespace
}  // namespace dtrain
