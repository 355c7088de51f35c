// translator.cc - encodes, searches, decodes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/translator.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dtrain {
namespace {

// Pieces and end symbol of each line; what exceeds the model's positions is cut off and counted.
std::vector<std::vector<int32_t>> EncodeWithEnd(const Seq2SeqTransformer& model,
                                                const TranslationTokenizer& tokenizer,
                                                std::span<const std::string> lines,
                                                MarianLines side, LineNotes& notes) {
  const auto limit = static_cast<size_t>(model.options().max_positions) - 1;
  const EncodedLines encoded = TranslationEncoder(tokenizer).Encode(lines, side);
  std::vector<std::vector<int32_t>> result(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::span<const int32_t> ids = encoded.line(i);
    notes.pieces.push_back(static_cast<int64_t>(ids.size()));
    if (ids.size() > limit) notes.cut.push_back(static_cast<int64_t>(i));
    if (std::find(ids.begin(), ids.end(), tokenizer.unk_id()) != ids.end()) {
      notes.unknown.push_back(static_cast<int64_t>(i));
    }
    const std::span<const int32_t> kept = ids.first(std::min(ids.size(), limit));
    result[i].assign(kept.begin(), kept.end());
    result[i].push_back(tokenizer.eos_id());
  }
  return result;
}

}  // namespace

BeamSearchOptions SearchOptionsFor(const TranslationTokenizer& tokenizer,
                                   BeamSearchOptions options) {
  options.end_id = tokenizer.eos_id();
  options.forbidden_ids = tokenizer.never_translated();
  return options;
}

std::vector<std::vector<Translation>> TranslateIds(Seq2SeqTransformer& model,
                                                   const TranslationTokenizer& tokenizer,
                                                   std::span<const std::vector<int32_t>> sources,
                                                   const BeamSearchOptions& options, Context& ctx) {
  const auto found = BeamSearch(model, sources, options, ctx);
  std::vector<std::vector<Translation>> translations(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    for (const Hypothesis& hypothesis : found[i]) {
      translations[i].push_back(
          {tokenizer.Decode(hypothesis.ids), hypothesis.score, hypothesis.log_probability});
    }
  }
  return translations;
}

std::vector<std::vector<Translation>> TranslateLines(Seq2SeqTransformer& model,
                                                     const TranslationTokenizer& tokenizer,
                                                     std::span<const std::string> lines,
                                                     const BeamSearchOptions& options, Context& ctx,
                                                     LineNotes* notes) {
  LineNotes own;
  const auto sources = EncodeWithEnd(model, tokenizer, lines, MarianLines::kSources, own);
  if (notes != nullptr) *notes = std::move(own);
  return TranslateIds(model, tokenizer, sources, options, ctx);
}

LossSums ScoreLines(Seq2SeqTransformer& model, const TranslationTokenizer& tokenizer,
                    std::span<const std::string> sources, std::span<const std::string> targets,
                    int64_t batch_tokens, Context& ctx, LineNotes* target_notes) {
  DT_CHECK_EQ(sources.size(), targets.size());
  LineNotes of_sources;
  LineNotes of_targets;
  const auto source_ids =
      EncodeWithEnd(model, tokenizer, sources, MarianLines::kSources, of_sources);
  const auto target_ids =
      EncodeWithEnd(model, tokenizer, targets, MarianLines::kTargets, of_targets);
  if (target_notes != nullptr) *target_notes = std::move(of_targets);
  const auto tokens_of = [&](size_t i) { return source_ids[i].size() + target_ids[i].size(); };
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tokens_of(a) > tokens_of(b); });
  LossSums sums;
  size_t next = 0;
  while (next < order.size()) {
    TranslationBatch batch;
    std::vector<int32_t> source_offsets = {0};
    std::vector<int32_t> target_offsets = {0};
    while (next < order.size()) {
      const std::vector<int32_t>& source = source_ids[order[next]];
      const std::vector<int32_t>& target = target_ids[order[next]];
      const size_t tokens = std::max(batch.source_ids.size() + source.size(),
                                     batch.target_ids.size() + target.size());
      if (target_offsets.size() > 1 && static_cast<int64_t>(tokens) > batch_tokens) break;
      batch.source_ids.insert(batch.source_ids.end(), source.begin(), source.end());
      batch.target_ids.insert(batch.target_ids.end(), target.begin(), target.end());
      batch.decoder_ids.push_back(tokenizer.pad_id());
      batch.decoder_ids.insert(batch.decoder_ids.end(), target.begin(), target.end() - 1);
      source_offsets.push_back(static_cast<int32_t>(batch.source_ids.size()));
      target_offsets.push_back(static_cast<int32_t>(batch.target_ids.size()));
      ++next;
    }
    batch.source = Sequences(std::move(source_offsets));
    batch.target = Sequences(std::move(target_offsets));
    sums += model.Forward(batch, ctx);
  }
  return sums;
}

}  // namespace dtrain
