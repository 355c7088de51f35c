// graphemes_test.cc - where grapheme clusters end, rule by rule of Unicode Standard Annex 29.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/graphemes.h"

#include <initializer_list>
#include <string>
#include <vector>

#include "dtrain/base/utf8.h"
#include "testing/catch.h"

namespace dtrain::internal {
namespace {

// The number of characters of each cluster.
std::vector<int> ClustersOf(std::initializer_list<uint32_t> characters) {
  std::string text;
  for (const uint32_t c : characters) AppendUtf8(c, text);
  std::vector<int> clusters;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t size = NextGrapheme(rest);
    int count = 0;
    for (const char byte : rest.substr(0, size))
      count += (static_cast<uint8_t>(byte) & 0xC0) != 0x80;
    clusters.push_back(count);
    rest.remove_prefix(size);
  }
  return clusters;
}

using Clusters = std::vector<int>;

TEST_CASE("letters are clusters of their own, and line ends of two characters one cluster") {
  CHECK(ClustersOf({'a', 'b', ' '}) == Clusters{1, 1, 1});
  CHECK(ClustersOf({'\r', '\n', '\n', '\r'}) == Clusters{2, 1, 1});
}

TEST_CASE("marks belong to what is before them, but not to a line end") {
  CHECK(ClustersOf({'a', 0x301, 0x300, 'b'}) == Clusters{3, 1});
  CHECK(ClustersOf({'\n', 0x301, 'b'}) == Clusters{1, 1, 1});
  CHECK(ClustersOf({0x301, 0x301, 'b'}) == Clusters{2, 1});
  CHECK(ClustersOf({0x915, 0x93E, 0x915}) == Clusters{2, 1});  // a vowel sign
  CHECK(ClustersOf({'a', 0x200D, 'b'}) == Clusters{2, 1});
}

TEST_CASE("a sign in front of a number belongs to it") {
  CHECK(ClustersOf({0x600, '1', '2'}) == Clusters{2, 1});
  CHECK(ClustersOf({0x600, '\n'}) == Clusters{1, 1});
}

TEST_CASE("parts of a syllable of Hangul are one cluster") {
  CHECK(ClustersOf({0x1100, 0x1100, 0x1161, 0x11A8, 0x11A8, 0x1100}) == Clusters{5, 1});
  CHECK(ClustersOf({0xAC00, 0x1161, 0x11A8}) == Clusters{3});
  CHECK(ClustersOf({0xAC00, 0x11A8, 0x1161}) == Clusters{2, 1});
  CHECK(ClustersOf({0xAC01, 0x11A8}) == Clusters{2});
  CHECK(ClustersOf({0xAC01, 0x1161}) == Clusters{1, 1});
  CHECK(ClustersOf({0x1100, 0xAC01, 0xAC00}) == Clusters{2, 1});
}

TEST_CASE("consonants of Indic scripts join through a virama") {
  CHECK(ClustersOf({0x915, 0x94D, 0x937, 0x915}) == Clusters{3, 1});
  CHECK(ClustersOf({0x915, 0x94D, 0x200D, 0x937}) == Clusters{4});
  CHECK(ClustersOf({0x915, 0x93C, 0x94D, 0x937}) == Clusters{4});
  CHECK(ClustersOf({0x915, 0x94D, 0x200C, 0x937}) == Clusters{3, 1});  // forbidden by U+200C
  CHECK(ClustersOf({'a', 0x94D, 0x937}) == Clusters{2, 1});
  CHECK(ClustersOf({0x915, 0x93C, 0x937}) == Clusters{2, 1});
}

TEST_CASE("pictures join through U+200D") {
  CHECK(ClustersOf({0x1F469, 0x200D, 0x1F469, 0x1F469}) == Clusters{3, 1});
  CHECK(ClustersOf({0x1F3F3, 0xFE0F, 0x200D, 0x1F308}) == Clusters{4});
  CHECK(ClustersOf({0x1F469, 0x200D, 0x200D, 0x1F469}) == Clusters{3, 1});
  CHECK(ClustersOf({'a', 0x200D, 0x1F469}) == Clusters{2, 1});
}

TEST_CASE("two letters of a flag are one cluster, the third begins another") {
  CHECK(ClustersOf({0x1F1E9, 0x1F1EA, 0x1F1E9, 0x1F1EA, 0x1F1E9}) == Clusters{2, 2, 1});
  CHECK(ClustersOf({0x1F1E9, 0x301, 0x1F1EA}) == Clusters{2, 1});
}

}  // namespace
}  // namespace dtrain::internal
