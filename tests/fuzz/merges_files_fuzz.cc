// merges_files_fuzz.cc - whatever a vocab.json and the files beside it, ids are in its vocabulary.
// SPDX-License-Identifier: Apache-2.0
//
// Input: a vocab.json, a merges.txt, a tokenizer_config.json, a special_tokens_map.json, an
// added_tokens.json and a text, with the bytes FE FE between them.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/tokenizers/byte_bpe.h"
#include "dtrain/tokenizers/internal/merges_files.h"
#include "fuzz/span_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string, 6> parts;
  for (std::string& part : parts) {
    const size_t end = rest.find("\xFE\xFE");
    part = rest.substr(0, end);
    rest = end == std::string_view::npos ? "" : rest.substr(end + 2);
  }
  const auto& [pieces, merges, settings, special_tokens, added_tokens, text] = parts;
  const auto tokenizer = dtrain::ByteBpeTokenizer::FromMerges({.folder = "d",
                                                               .pieces = pieces,
                                                               .merges = merges,
                                                               .settings = settings,
                                                               .special_tokens = special_tokens,
                                                               .added_tokens = added_tokens});
  if (!tokenizer.ok()) {
    DT_CHECK(tokenizer.status().message().starts_with("d/")) << tokenizer.status().message();
    return 0;
  }
  dtrain::ByteBpeEncoder encoder(*tokenizer);
  std::vector<int32_t> ids;
  encoder.Encode(text, ids);
  for (const int32_t id : ids) DT_CHECK(id >= 0 && id < tokenizer->vocab_size());
  tokenizer->Decode(ids);
  std::vector<int32_t> types;
  encoder.EncodeRow(text, text, 0, ids, types);
  DT_CHECK_EQ(ids.size(), types.size());
  dtrain::testing::CheckSpans<dtrain::ByteBpeTokenizer, dtrain::ByteBpeEncoder>(*tokenizer, text);
  return 0;
}
