// marian_fuzz.cc - whatever the files of a Marian tokenizer, ids are in its vocabulary.
// SPDX-License-Identifier: Apache-2.0
//
// Input: a file of SentencePiece for both languages, a vocab.json, a tokenizer_config.json, a text
// and a target_vocab.json, with the bytes FE FE between them.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/tokenizers/marian.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using dtrain::MarianSide;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string, 5> parts;
  for (std::string& part : parts) {
    const size_t end = rest.find("\xFE\xFE");
    part = rest.substr(0, end);
    rest = end == std::string_view::npos ? "" : rest.substr(end + 2);
  }
  const auto& [model, vocabulary, config, text, targets] = parts;
  const auto tokenizer =
      dtrain::MarianTokenizer::FromFiles({model, model, vocabulary, config, targets}, "m");
  if (!tokenizer.ok()) {
    DT_CHECK(tokenizer.status().message().starts_with("m/")) << tokenizer.status().message();
    return 0;
  }
  dtrain::MarianEncoder encoder(*tokenizer);
  for (const MarianSide side : {MarianSide::kSource, MarianSide::kTarget}) {
    std::vector<int32_t> ids;
    std::vector<int32_t> again;
    encoder.Encode(text, side, ids);
    encoder.Encode(text, side, again);  // now from the cache
    DT_CHECK(ids == again);
    for (const int32_t id : ids) DT_CHECK(id >= 0 && id < tokenizer->vocab_size(side));
    if (side == MarianSide::kTarget) tokenizer->Decode(ids);
  }
  return 0;
}
