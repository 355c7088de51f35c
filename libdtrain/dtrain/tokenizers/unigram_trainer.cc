// unigram_trainer.cc - runs the rounds, chooses the pieces at the end, and writes both files.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/unigram_trainer.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/sentencepiece.pb.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "dtrain/tokenizers/internal/corpus_words.h"
#include "dtrain/tokenizers/internal/learned_json.h"
#include "dtrain/tokenizers/internal/seed_pieces.h"
#include "dtrain/tokenizers/internal/unigram_estimator.h"
#include "dtrain/tokenizers/internal/unigram_words.h"
#include "dtrain/tokenizers/internal/word_table.h"

namespace dtrain {
namespace {

using internal::OrderedJson;
using Piece = LearnedUnigram::Piece;

// Dropping stops early at so many times the size wanted; of what is left the most likely pieces
// are taken.
constexpr double kSpare = 1.1;
// Between the scores of characters that were dropped, so that none are equal.
constexpr double kScoreStep = 0.0001;

Status CheckUnigramOptions(const UnigramTrainerOptions& options) {
  DT_RETURN_IF_ERROR(CheckSpecialTokens(options.special));
  const auto check = [](bool ok, const char* name, const char* range, double value) {
    return ok ? OkStatus()
              : UsageError(absl::StrFormat("%s must be %s, not %g", name, range, value));
  };
  DT_RETURN_IF_ERROR(check(options.character_coverage > 0.0 && options.character_coverage <= 1.0,
                           "character_coverage", "above 0 and at most 1",
                           options.character_coverage));
  DT_RETURN_IF_ERROR(check(options.max_piece_length >= 1, "max_piece_length", "at least 1",
                           options.max_piece_length));
  DT_RETURN_IF_ERROR(check(options.seed_size >= 0, "seed_size", "at least 0", options.seed_size));
  DT_RETURN_IF_ERROR(
      check(options.sub_iterations >= 1, "sub_iterations", "at least 1", options.sub_iterations));
  return check(options.shrinking_factor > 0.0 && options.shrinking_factor < 1.0, "shrinking_factor",
               "between 0 and 1", options.shrinking_factor);
}

std::string Escaped(const std::string& text) {
  return text.front() == ' ' ? std::string(internal::kMetaspace) + text.substr(1) : text;
}

// All characters, and of the other pieces the most likely ones, `size` in all.
std::vector<Piece> ChoosePieces(const std::vector<internal::UnigramPiece>& pieces,
                                const internal::UnigramWords& words, size_t size) {
  std::unordered_map<std::string_view, double> scores;
  double lowest = 0.0;
  for (const internal::UnigramPiece& piece : pieces) {
    scores.emplace(piece.text, piece.score);
    lowest = std::min(lowest, piece.score);
  }
  std::vector<Piece> chosen;
  for (const auto& [text, count] : words.characters) {
    const auto found = scores.find(text);
    if (found == scores.end()) lowest -= kScoreStep;
    const double score = found == scores.end() ? lowest : found->second;
    chosen.push_back({Escaped(text), static_cast<float>(score)});
    if (found != scores.end()) scores.erase(found);
  }
  const auto is_before = [](const Piece& a, const Piece& b) {
    return a.score != b.score ? a.score > b.score : a.text < b.text;
  };
  std::vector<Piece> others;
  for (const auto& [text, score] : scores) {
    others.push_back({Escaped(std::string(text)), static_cast<float>(score)});
  }
  std::sort(others.begin(), others.end(), is_before);
  others.resize(std::min(others.size(), size - chosen.size()));
  chosen.insert(chosen.end(), others.begin(), others.end());
  std::sort(chosen.begin(), chosen.end(), is_before);
  return chosen;
}

}  // namespace

StatusOr<LearnedUnigram> LearnUnigram(const LineSource& source,
                                      const UnigramTrainerOptions& options) {
  DT_RETURN_IF_ERROR(CheckUnigramOptions(options));
  LearnedUnigram learned{.special = options.special};
  internal::UnigramWords words;
  {
    WordCounter counter(options.num_threads);
    DT_RETURN_IF_ERROR(counter.AddAll(source, internal::DivideAtSpaces));
    const internal::WordTable table = counter.Take();
    learned.distinct_words = static_cast<int64_t>(table.size());
    for (size_t i = 0; i < table.size(); ++i) {
      learned.words += static_cast<int64_t>(table.value(i));
    }
    words = internal::WordsOf(table, options.character_coverage);
  }
  learned.long_words = words.long_words;
  learned.characters = static_cast<int64_t>(words.characters.size());
  if (learned.words == 0) {
    return DataError("no vocabulary can be learned: the text has no words");
  }
  if (words.words.empty()) {
    return DataError(
        absl::StrFormat("no vocabulary can be learned: all of the %d words have more than %d bytes",
                        learned.words, internal::kMaxWordBytes));
  }
  const size_t specials = options.special.texts.size();
  const size_t needed = specials + words.characters.size();
  if (options.vocab_size < 0 || static_cast<size_t>(options.vocab_size) < needed) {
    return UsageError(absl::StrFormat(
        "vocab_size %d is too small: the %d characters of the text and the special tokens need "
        "%d; raise it or lower character_coverage",
        options.vocab_size, words.characters.size(), needed));
  }
  DT_ASSIGN_OR_RETURN(const std::vector<internal::SeedPiece> seeds,
                      internal::SeedPieces(words, {.limit = static_cast<size_t>(options.seed_size),
                                                   .max_piece_length = options.max_piece_length,
                                                   .split_by_script = options.split_by_script,
                                                   .split_digits = options.split_digits}));
  internal::UnigramEstimator estimator(words, seeds, options.num_threads);
  const auto wanted = static_cast<size_t>(kSpare * options.vocab_size);
  for (;;) {
    for (int32_t i = 0; i < options.sub_iterations; ++i) estimator.Improve();
    if (estimator.size() <= wanted) break;
    const double share = options.shrinking_factor * static_cast<double>(estimator.size());
    estimator.Prune(std::max(wanted, static_cast<size_t>(share)));
  }
  learned.pieces =
      ChoosePieces(estimator.pieces(), words, static_cast<size_t>(options.vocab_size) - specials);
  std::vector<std::string> texts;
  for (const Piece& piece : learned.pieces) texts.push_back(piece.text);
  DT_RETURN_IF_ERROR(CheckIsNoPiece(learned.special, texts));
  return learned;
}

std::string UnigramJson(const LearnedUnigram& learned) {
  const std::vector<std::string>& special = learned.special.texts;
  OrderedJson vocabulary = OrderedJson::array();
  for (const std::string& text : special) vocabulary.push_back(OrderedJson::array({text, 0.0}));
  for (const Piece& piece : learned.pieces) {
    vocabulary.push_back(OrderedJson::array({piece.text, static_cast<double>(piece.score)}));
  }
  const std::string metaspace(internal::kMetaspace);
  const OrderedJson spaces = {{"type", "Metaspace"},
                              {"replacement", metaspace},
                              {"prepend_scheme", "always"},
                              {"split", true}};
  const OrderedJson strip = {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}};
  const OrderedJson squeeze = {
      {"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", metaspace}};
  const auto token = [&](size_t id) {
    return OrderedJson{{"SpecialToken", {{"id", special[id]}, {"type_id", 0}}}};
  };
  const auto text = [](const char* name) {
    return OrderedJson{{"Sequence", {{"id", name}, {"type_id", 0}}}};
  };
  const auto described = [&](size_t id) {
    return OrderedJson{{"id", special[id]},
                       {"ids", OrderedJson::array({id})},
                       {"tokens", OrderedJson::array({special[id]})}};
  };
  const OrderedJson begin = token(SpecialTokens::kBegin);
  const OrderedJson end = token(SpecialTokens::kEnd);
  const OrderedJson row = {
      {"type", "TemplateProcessing"},
      {"single", OrderedJson::array({begin, text("A"), end})},
      {"pair", OrderedJson::array({begin, text("A"), end, end, text("B"), end})},
      {"special_tokens",
       {{special[SpecialTokens::kBegin], described(SpecialTokens::kBegin)},
        {special[SpecialTokens::kEnd], described(SpecialTokens::kEnd)}}}};
  return internal::TokenizerJson(
      learned.special,
      {.normalizer = {{"type", "Sequence"}, {"normalizers", OrderedJson::array({strip, squeeze})}},
       .pre_tokenizer = spaces,
       .post_processor = row,
       .decoder = spaces,
       .model = {{"type", "Unigram"},
                 {"unk_id", SpecialTokens::kUnknown},
                 {"vocab", std::move(vocabulary)},
                 {"byte_fallback", false}}});
}

std::string UnigramModelProto(const LearnedUnigram& learned) {
  constexpr int kNormal = 1, kUnknown = 2, kControl = 3;
  const std::vector<std::string>& special = learned.special.texts;
  spm::Model file;
  const auto add = [&](const std::string& text, float score, int type) {
    spm::Model::Piece* const piece = file.add_pieces();
    piece->set_piece(text);
    piece->set_score(score);
    piece->set_type(type);
  };
  for (size_t id = 0; id < special.size(); ++id) {
    add(special[id], 0.0f, id == SpecialTokens::kUnknown ? kUnknown : kControl);
  }
  for (const Piece& piece : learned.pieces) add(piece.text, piece.score, kNormal);
  spm::TrainerSpec& trainer = *file.mutable_trainer_spec();
  trainer.set_model_type(1);
  trainer.set_vocab_size(file.pieces_size());
  trainer.set_unk_id(SpecialTokens::kUnknown);
  trainer.set_bos_id(SpecialTokens::kBegin);
  trainer.set_eos_id(SpecialTokens::kEnd);
  trainer.set_pad_id(SpecialTokens::kPadding);
  trainer.set_unk_piece(special[SpecialTokens::kUnknown]);
  trainer.set_bos_piece(special[SpecialTokens::kBegin]);
  trainer.set_eos_piece(special[SpecialTokens::kEnd]);
  trainer.set_pad_piece(special[SpecialTokens::kPadding]);
  spm::NormalizerSpec& rules = *file.mutable_normalizer_spec();
  rules.set_name("identity");
  rules.set_add_dummy_prefix(true);
  rules.set_remove_extra_whitespaces(true);
  rules.set_escape_whitespaces(true);
  return file.SerializeAsString();
}

}  // namespace dtrain
