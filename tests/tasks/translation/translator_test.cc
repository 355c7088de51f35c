// translator_test.cc - what a translation may hold.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/translator.h"

#include <algorithm>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/bpe_trainer.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

TEST_CASE("no translation holds a mark, an unknown piece, or a byte that ends its line") {
  const std::vector<std::string> lines = {"a house by the water", "ein Haus am Wasser"};
  for (const bool byte_fallback : {false, true}) {
    WordCounter counter;
    counter.Add(lines);
    BpeTrainerOptions options;
    options.vocab_size = byte_fallback ? 300 : 44;
    options.byte_fallback = byte_fallback;
    const StatusOr<BpeModel> model = LearnBpe(counter, options);
    INFO(std::string(model.status().message()));
    REQUIRE(model.ok());
    const TemporaryFolder folder;
    REQUIRE(model->Save(folder.File("vocab.spm")).ok());
    const auto tokenizer = TranslationTokenizer::Load(folder.path());
    REQUIRE(tokenizer.ok());
    const std::vector<int32_t> never = tokenizer->never_translated();
    CHECK(SearchOptionsFor(*tokenizer, {.beam_size = 2}).forbidden_ids == never);
    for (int32_t id = 0; id < model->vocab_size(); ++id) {
      const bool is_forbidden = std::find(never.begin(), never.end(), id) != never.end();
      const std::string text = model->Decode(std::vector<int32_t>{id});
      const bool ends_line = text.find_first_of(std::string("\n\r\0", 3)) != std::string::npos;
      INFO(id << " '" << text << "'");
      if (ends_line) CHECK(is_forbidden);
      if (is_forbidden) CHECK((ends_line || id == model->bos_id() || id == model->unk_id()));
    }
    CHECK(never.size() == (byte_fallback ? 5u : 2u));
  }
}

}  // namespace
}  // namespace dtrain
