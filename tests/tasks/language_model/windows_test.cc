// windows_test.cc - every token is predicted once, from the one before it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/windows.h"

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "dtrain/tasks/language_model/tokens.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using Ids = std::vector<int32_t>;

std::shared_ptr<const TextSet> SetOf(const std::vector<std::string>& texts) {
  return std::make_shared<const TextSet>(TextSet{.texts = texts});
}

Ids Lengths(const TextWindows& windows) {
  return {windows.lengths().begin(), windows.lengths().end()};
}

TEST_CASE("a text is cut into windows that begin with the token before them") {
  const TextWindows windows(SetOf({"abcde", "xy"}), 3);
  CHECK(Lengths(windows) == Ids{3, 3, 3});
  CHECK(windows.tokens() == 9);
  CHECK(windows.bytes() == 7);
  const std::vector<uint32_t> all = {0, 1, 2};
  const GptBatch batch = windows.Pack(all);
  CHECK(batch.input_ids == Ids{kEndOfText, 'a', 'b', 'c', 'd', 'e', kEndOfText, 'x', 'y'});
  CHECK(batch.target_ids == Ids{'a', 'b', 'c', 'd', 'e', kEndOfText, 'x', 'y', kEndOfText});
  CHECK(batch.sequences.offsets() == Ids{0, 3, 6, 9});
  CHECK(windows.Text(1) == "de");
  CHECK(windows.Text(2) == "xy");
}

TEST_CASE("a window may hold the end of a text alone") {
  const TextWindows windows(SetOf({"abc"}), 3);
  CHECK(Lengths(windows) == Ids{3, 1});
  const GptBatch batch = windows.Pack(std::vector<uint32_t>{1});
  CHECK(batch.input_ids == Ids{'c'});
  CHECK(batch.target_ids == Ids{kEndOfText});
  CHECK(windows.bytes() == 3);
}

TEST_CASE("bytes above 127 are ids above 127") {
  const TextWindows windows(SetOf({"\xC3\xA4"}), 8);
  CHECK(windows.Pack(std::vector<uint32_t>{0}).target_ids == Ids{0xC3, 0xA4, kEndOfText});
  CHECK(PromptOf("\xC3\xA4") == Ids{kEndOfText, 0xC3, 0xA4});
  CHECK(TextOf(Ids{0xC3, 0xA4, kEndOfText}) == "\xC3\xA4");
}

TEST_CASE("windows that are taken away are not learned from, and the rest is") {
  TextWindows windows(SetOf({"abcdefgh", "xy"}), 3);
  const int64_t tokens = windows.tokens();
  const int64_t bytes = windows.bytes();
  const TextWindows last = windows.TakeLast(2);
  CHECK(windows.size() == 2);
  CHECK(last.size() == 2);
  CHECK(last.Text(0) == "gh");
  CHECK(last.Text(1) == "xy");
  CHECK(windows.tokens() + last.tokens() == tokens);
  CHECK(windows.bytes() + last.bytes() == bytes);
  CHECK(windows.Pack(std::vector<uint32_t>{1}).target_ids == Ids{'d', 'e', 'f'});
}

}  // namespace
}  // namespace dtrain
