// byte_bpe_trainer.cc - counts words, learns merges of bytes, and writes them as tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/byte_bpe_trainer.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <string_view>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/utf8.h"
#include "dtrain/tokenizers/internal/byte_level.h"
#include "dtrain/tokenizers/internal/corpus_words.h"
#include "dtrain/tokenizers/internal/learned_json.h"
#include "dtrain/tokenizers/internal/merge_learner.h"
#include "dtrain/tokenizers/internal/word_table.h"

namespace dtrain {
namespace {

using internal::OrderedJson;
using internal::WordTable;

constexpr size_t kNumBytes = 256;

void DivideByPattern(std::span<const std::string> lines,
                     const std::function<void(std::string_view)>& add) {
  for (const std::string& line : lines) {
    for (std::string_view rest = line; !rest.empty();) {
      const size_t size = internal::NextWord(rest);
      add(rest.substr(0, size));
      rest.remove_prefix(size);
    }
  }
}

// The characters that stand for bytes, by code point.
std::vector<uint32_t> ByteCharacters() {
  std::vector<uint32_t> characters;
  for (size_t byte = 0; byte < kNumBytes; ++byte) {
    characters.push_back(internal::CharacterOfByte(static_cast<uint8_t>(byte)));
  }
  std::sort(characters.begin(), characters.end());
  return characters;
}

Status CheckByteBpeOptions(const ByteBpeTrainerOptions& options) {
  DT_RETURN_IF_ERROR(CheckSpecialTokens(options.special));
  if (options.min_frequency < 1) {
    return UsageError(
        absl::StrFormat("min_frequency must be at least 1, not %d", options.min_frequency));
  }
  const size_t needed = options.special.texts.size() + kNumBytes;
  if (options.vocab_size < 0 || static_cast<size_t>(options.vocab_size) < needed) {
    return UsageError(
        absl::StrFormat("vocab_size %d is too small: the special tokens and the 256 bytes need %d",
                        options.vocab_size, needed));
  }
  return OkStatus();
}

}  // namespace

StatusOr<LearnedByteBpe> LearnByteBpe(const LineSource& source,
                                      const ByteBpeTrainerOptions& options) {
  DT_RETURN_IF_ERROR(CheckByteBpeOptions(options));
  WordCounter counter(options.num_threads);
  DT_RETURN_IF_ERROR(counter.AddAll(source, DivideByPattern));
  const WordTable words = counter.Take();
  if (words.size() == 0) {
    return DataError("no vocabulary can be learned: the text has no words");
  }
  LearnedByteBpe learned{.special = options.special};
  learned.distinct_words = static_cast<int64_t>(words.size());
  const std::vector<uint32_t> characters = ByteCharacters();
  internal::MergeLearner learner(characters,
                                 {.max_piece_length = std::numeric_limits<int32_t>::max(),
                                  .min_frequency = options.min_frequency,
                                  .split_by_script = false},
                                 {}, internal::MergeOrder::kOldestFirst);
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto count = static_cast<int64_t>(words.value(i));
    learned.words += count;
    if (words.word(i).size() > internal::kMaxWordBytes) {
      learned.long_words += count;
      continue;
    }
    text.clear();
    for (const char byte : words.word(i)) {
      AppendUtf8(internal::CharacterOfByte(static_cast<uint8_t>(byte)), text);
    }
    learner.AddWord(text, count);
  }
  for (const uint32_t c : characters) AppendUtf8(c, learned.pieces.emplace_back());
  const size_t before = options.special.texts.size() + learned.pieces.size();
  std::vector<internal::LearnedMerge> merges;
  for (std::string& piece :
       learner.Learn(static_cast<size_t>(options.vocab_size) - before, &merges)) {
    learned.pieces.push_back(std::move(piece));
  }
  for (internal::LearnedMerge& merge : merges) {
    learned.merges.emplace_back(std::move(merge.left), std::move(merge.right));
  }
  DT_RETURN_IF_ERROR(CheckIsNoPiece(learned.special, learned.pieces));
  return learned;
}

std::string ByteBpeJson(const LearnedByteBpe& learned) {
  const std::vector<std::string>& special = learned.special.texts;
  const auto byte_level = [](bool adds_space) {
    return OrderedJson{{"type", "ByteLevel"},
                       {"add_prefix_space", adds_space},
                       {"trim_offsets", true},
                       {"use_regex", true}};
  };
  std::vector<std::string> vocabulary = special;
  vocabulary.insert(vocabulary.end(), learned.pieces.begin(), learned.pieces.end());
  OrderedJson merges = OrderedJson::array();
  for (const auto& [left, right] : learned.merges) merges.push_back({left, right});
  const OrderedJson model = {{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", ""},
                             {"end_of_word_suffix", ""},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"ignore_merges", false},
                             {"vocab", internal::IdsJson(vocabulary)},
                             {"merges", std::move(merges)}};
  const auto named = [&](size_t id) { return OrderedJson::array({special[id], id}); };
  const OrderedJson row = {{"type", "RobertaProcessing"},
                           {"sep", named(SpecialTokens::kEnd)},
                           {"cls", named(SpecialTokens::kBegin)},
                           {"trim_offsets", true},
                           {"add_prefix_space", false}};
  return internal::TokenizerJson(learned.special, {.pre_tokenizer = byte_level(false),
                                                   .post_processor = row,
                                                   .decoder = byte_level(true),
                                                   .model = model});
}

}  // namespace dtrain
