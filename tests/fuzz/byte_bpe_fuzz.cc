// byte_bpe_fuzz.cc - whatever the bytes of a tokenizer.json, ids are in its vocabulary.
// SPDX-License-Identifier: Apache-2.0
//
// Input: a tokenizer.json up to the first byte FE, then a text.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/tokenizers/byte_bpe.h"
#include "fuzz/span_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\xFE');
  const auto tokenizer = dtrain::ByteBpeTokenizer::FromJson(input.substr(0, end), "file");
  if (!tokenizer.ok()) {
    DT_CHECK(tokenizer.status().message().starts_with("file: ")) << tokenizer.status().message();
    return 0;
  }
  const std::string_view text = end == std::string_view::npos ? "" : input.substr(end + 1);
  dtrain::ByteBpeEncoder encoder(*tokenizer);
  std::vector<int32_t> ids;
  std::vector<int32_t> again;
  encoder.Encode(text, ids);
  encoder.Encode(text, again);  // now from the cache
  DT_CHECK(ids == again);
  for (const int32_t id : ids) DT_CHECK(id >= 0 && id < tokenizer->vocab_size());
  tokenizer->Decode(ids);
  std::vector<int32_t> types;
  encoder.EncodeRow(text, text, 0, ids, types);
  DT_CHECK_EQ(ids.size(), types.size());
  dtrain::testing::CheckSpans<dtrain::ByteBpeTokenizer, dtrain::ByteBpeEncoder>(*tokenizer, text);
  return 0;
}
