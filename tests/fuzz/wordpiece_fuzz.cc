// wordpiece_fuzz.cc - whatever the bytes of vocabulary and text, ids are those of greedy matching.
// SPDX-License-Identifier: Apache-2.0
//
// Input: a byte of options, a vocabulary file up to the first byte FE, then texts up to further
// ones.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/status.h"
#include "dtrain/tokenizers/wordpiece.h"
#include "fuzz/fuzz_file.h"

namespace dtrain {
namespace {

std::string_view TakePart(std::string_view& rest) {
  const size_t end = std::min(rest.find('\xFE'), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0u) == 0x80u; }

// As tokenization.py does it. `word` is valid UTF-8 without "##", as words are.
void MatchGreedily(const WordPieceTokenizer& tokenizer, const std::string& word,
                   std::vector<int32_t>& ids) {
  const size_t before = ids.size();
  const auto num_chars =
      word.size() - static_cast<size_t>(std::count_if(word.begin(), word.end(), IsContinuation));
  bool is_known = num_chars <= static_cast<size_t>(tokenizer.options().max_word_chars);
  for (size_t begin = 0; is_known && begin < word.size();) {
    size_t end = word.size();
    int32_t id = -1;
    for (; end > begin && id < 0; --end) {
      id = tokenizer.IdOf((begin > 0 ? "##" : "") + word.substr(begin, end - begin));
    }
    is_known = id >= 0;
    ids.push_back(id);
    begin = end + 1;
  }
  if (is_known) return;
  ids.resize(before);
  ids.push_back(tokenizer.unk_id());
}

void CheckSpans(const WordPieceTokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  std::vector<TokenSpan> spans;
  tokenizer.EncodeWithSpans(text, ids, spans);
  DT_CHECK_EQ(ids.size(), spans.size());
  if (!*tokenizer.options().match_special_tokens) DT_CHECK(ids == tokenizer.Encode(text));
  TokenSpan before;
  for (const TokenSpan& span : spans) {
    DT_CHECK(span.begin >= before.begin && span.end >= before.end);
    DT_CHECK(span.begin < span.end && span.end <= static_cast<int32_t>(text.size()));
    DT_CHECK(!IsContinuation(text[static_cast<size_t>(span.begin)]));
    before = span;
  }
}

void CheckText(const WordPieceTokenizer& tokenizer, WordPieceEncoder& encoder,
               std::string_view text) {
  std::vector<int32_t> ids;
  encoder.Encode(text, ids);
  DT_CHECK_LE(ids.size(), text.size());
  DT_CHECK(ids == tokenizer.Encode(text));
  DT_CHECK(ids.empty() || !tokenizer.Decode(ids).empty());
  if (!*tokenizer.options().match_special_tokens) {
    std::vector<int32_t> expected;
    for (const std::string& word : tokenizer.Words(text)) MatchGreedily(tokenizer, word, expected);
    DT_CHECK(ids == expected);
  }
  CheckSpans(tokenizer, text);
  for (const int max_length : {3, 4, 9, 0}) {
    std::vector<int32_t> row;
    const int64_t type0_size =
        encoder.EncodeRow(text, text.substr(text.size() / 2), {.max_length = max_length}, row);
    DT_CHECK(max_length == 0 || row.size() <= static_cast<size_t>(max_length));
    DT_CHECK(type0_size >= 2 && static_cast<size_t>(type0_size) <= row.size());
    DT_CHECK_EQ(row.front(), tokenizer.cls_id());
    DT_CHECK_EQ(row.back(), tokenizer.sep_id());
  }
}

void Fuzz(std::string_view input) {
  if (input.empty()) return;
  const auto bits = static_cast<uint8_t>(input[0]);
  input.remove_prefix(1);
  // Half of all vocabularies begin well, so that texts come to be encoded.
  std::string vocabulary = (bits & 1) != 0 ? "[UNK]\n[CLS]\n[SEP]\n" : "";
  vocabulary += TakePart(input);
  WordPieceOptions options{
      .behavior = (bits & 2) != 0 ? WordPieceBehavior::kHuggingFace : WordPieceBehavior::kGoogle,
      .lower_case = (bits & 4) != 0,
      .split_cjk = (bits & 8) != 0};
  if ((bits & 16) != 0) options.strip_accents = (bits & 32) != 0;
  if ((bits & 64) != 0) options.match_special_tokens = (bits & 32) == 0;
  if ((bits & 128) != 0) options.max_word_chars = 5;
  const FuzzFile file(reinterpret_cast<const uint8_t*>(vocabulary.data()), vocabulary.size());
  const StatusOr<WordPieceTokenizer> tokenizer = WordPieceTokenizer::Load(file.path(), options);
  if (!tokenizer.ok()) {
    DT_CHECK(tokenizer.status().code() == ExitCode::kData) << tokenizer.status().message();
    return;
  }
  WordPieceEncoder encoder(*tokenizer, 512);
  while (!input.empty()) CheckText(*tokenizer, encoder, TakePart(input));
}

}  // namespace
}  // namespace dtrain

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dtrain::Fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
