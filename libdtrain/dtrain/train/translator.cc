// translator.cc - encodes, searches, decodes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/translator.h"

#include <algorithm>

namespace dtrain {

BeamSearchOptions SearchOptionsFor(const BpeModel& tokenizer, int beam_size, float alpha) {
  BeamSearchOptions options;
  options.beam_size = beam_size;
  options.alpha = alpha;
  options.end_id = tokenizer.eos_id();
  options.forbidden_ids = {tokenizer.bos_id(), tokenizer.unk_id()};
  return options;
}

std::vector<std::vector<Translation>> TranslateIds(Seq2SeqTransformer& model,
                                                   const BpeModel& tokenizer,
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
                                                     const BpeModel& tokenizer,
                                                     std::span<const std::string> lines,
                                                     const BeamSearchOptions& options, Context& ctx,
                                                     int64_t* num_cut) {
  const auto limit = static_cast<size_t>(model.options().max_positions) - 1;
  const EncodedLines encoded = EncodeLines(tokenizer, lines);
  std::vector<std::vector<int32_t>> sources(lines.size());
  int64_t cut = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::span<const int32_t> ids = encoded.line(i);
    if (ids.size() > limit) ++cut;
    const std::span<const int32_t> kept = ids.first(std::min(ids.size(), limit));
    sources[i].assign(kept.begin(), kept.end());
    sources[i].push_back(tokenizer.eos_id());
  }
  if (num_cut != nullptr) *num_cut = cut;
  return TranslateIds(model, tokenizer, sources, options, ctx);
}

}  // namespace dtrain
