// sentences_fuzz.cc - whatever the bytes of a line, its sentences are its text, in order and whole.
// SPDX-License-Identifier: Apache-2.0
#include <string_view>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "dtrain/tasks/pretraining/sentences.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  std::vector<std::string_view> sentences;
  dtrain::SplitSentences(line, sentences);
  DT_CHECK(sentences.empty() == dtrain::HasOnlySpaces(line));
  // Only spaces lie before, between and behind them.
  const char* end = line.data();
  const auto skip_to = [&](const char* begin) {
    DT_CHECK(end <= begin) << "sentences overlap";
    DT_CHECK(dtrain::HasOnlySpaces({end, static_cast<size_t>(begin - end)})) << "text is lost";
  };
  for (const std::string_view sentence : sentences) {
    DT_CHECK(!dtrain::HasOnlySpaces(sentence));
    // A mark is never torn.
    DT_CHECK(dtrain::IsValidUtf8(sentence) || !dtrain::IsValidUtf8(line));
    skip_to(sentence.data());
    end = sentence.data() + sentence.size();
  }
  skip_to(line.data() + line.size());
  return 0;
}
