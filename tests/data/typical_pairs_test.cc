// typical_pairs_test.cc - samples are sentences of usual length, not markup.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/typical_pairs.h"

#include <string>
#include <vector>

#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("prose is words, not markup, code, numbers or placeholders") {
  for (const char* const prose : {"Open the file and click Save.", "Die Datei wird geöffnet.",
                                  "我们今天去北京看朋友。", "Съешь ещё этих булок"}) {
    CHECK(IsProse(prose));
  }
  for (const char* const other :
       {"", "Yes.", "<item type=\"menu\">Edit</item> opens", "the $PRODUCTNAME help pages",
        "%PLACEHOLDER and more of it", "1,234.56 - 7,890 - 11,12 abcdefgh", "bm_id3150702 bookmark",
        "broken \xFF text of some length"}) {
    CHECK_FALSE(IsProse(other));
  }
}

TEST_CASE("pairs of median length are typical, and the rest fills up") {
  std::vector<std::string> sources;
  for (int i = 1; i <= 9; ++i)
    sources.push_back("Sentence" + std::string(static_cast<size_t>(i), 'x'));
  const std::vector<std::string> targets = sources;
  CHECK(TypicalPairs(sources, targets, 3) == std::vector<size_t>{3, 4, 5});
  CHECK(TypicalPairs(sources, targets, 0).empty());
  CHECK(TypicalPairs(sources, targets, 50).size() == 9);
  CHECK(TypicalPairs({}, {}, 3).empty());
  std::vector<std::string> marked = targets;
  marked[4] = "<ahelp>Sentence</ahelp>";
  CHECK(TypicalPairs(sources, marked, 2) == std::vector<size_t>{3, 5});
  CHECK(TypicalPairs(sources, marked, 9).size() == 9);
}

}  // namespace
}  // namespace dtrain
