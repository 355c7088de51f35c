// beam_search.h - translates batches of sentences with a trained Seq2SeqTransformer.
// SPDX-License-Identifier: Apache-2.0
//
//   const auto results = BeamSearch(model, sources, {.beam_size = 4, .end_id = bpe.eos_id()}, ctx);
//   Print(results[0][0].ids);                                   // best translation of sources[0]
//
// Sentences are sorted by length and cut into batches by token count; a finished sentence leaves
// its batch. Each sentence is searched on its own: its result depends on its batch by the rounding
// of the products alone. Of a step's candidates the beam_size best count: those that end are
// finished, the others' places go to the next best that do not end (the search of transformers'
// generate).
#ifndef DTRAIN_MODELS_BEAM_SEARCH_H_
#define DTRAIN_MODELS_BEAM_SEARCH_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nn/context.h"

namespace dtrain {

struct BeamSearchOptions {
  int beam_size = 4;   // 1 is greedy search, whatever alpha is
  float alpha = 0.6f;  // score = log p / ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14)
  int32_t extra_length = 50;  // a translation has at most source length + this many tokens
  int n_best = 1;             // hypotheses returned per sentence, at most beam_size
  int32_t end_id = 2;         // ends a sentence
  std::vector<int32_t> forbidden_ids = {};  // never produced; <pad> never is
  // Source tokens translated together. Of very short sentences fewer: a batch has places for at
  // most kPlacesPerToken times as many tokens of translations, which take the memory.
  int64_t batch_tokens = 4096;
  static constexpr int64_t kPlacesPerToken = 4;
  std::function<bool()> stop =
      {};  // asked between steps; true abandons the search (results so far)
};

struct Hypothesis {
  std::vector<int32_t> ids;  // without the end symbol
  float score = 0.0f;        // length-normalised
  float log_probability = 0.0f;
};

// For each source (ids, end symbol included) up to n_best hypotheses, best first. An empty source
// or one that holds just the end symbol translates to an empty hypothesis. Sources longer than the
// model's max_positions are a CheckError. The context must not be training.
std::vector<std::vector<Hypothesis>> BeamSearch(Seq2SeqTransformer& model,
                                                std::span<const std::vector<int32_t>> sources,
                                                const BeamSearchOptions& options, Context& ctx);

}  // namespace dtrain

#endif  // DTRAIN_MODELS_BEAM_SEARCH_H_
