// beam_search.h - translates batches of sentences with a trained Seq2SeqTransformer.
// SPDX-License-Identifier: Apache-2.0
//
//   const auto results = BeamSearch(model, sources, {.beam_size = 4, .end_id = bpe.eos_id()}, ctx);
//   Print(results[0][0].ids);  // best translation of sources[0]
//
// Sentences are sorted by length and split into batches by token count. A finished sentence leaves
// its batch. Each sentence is searched independently: its batch affects its result only through the
// rounding of products.
//
// As in transformers' generate, the beam_size best candidates of a step count. Those that end are
// finished. The next best ones that do not end take their places.
#ifndef DTRAIN_MODELS_BEAM_SEARCH_H_
#define DTRAIN_MODELS_BEAM_SEARCH_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nn/context.h"

namespace dtrain {

// How hypotheses are compared.
enum class BeamRules {
  kWu,            // score = log p / ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14)
  kTransformers,  // score = log p / length^alpha, as generate(); an end symbol where the length
                  // allows no other is certain (forced_eos_token_id)
};

struct BeamSearchOptions {
  int beam_size = 4;          // 1 is greedy search, whatever alpha is
  float alpha = 0.6f;         // strength of the length penalty, see `rules`
  int32_t extra_length = 50;  // a translation has at most this many tokens more than its source
  int n_best = 1;             // hypotheses returned per sentence, at most beam_size
  int32_t end_id = 2;         // the id that ends a sentence
  std::vector<int32_t> forbidden_ids = {};  // ids that are never produced; <pad> is always
                                            // forbidden
  BeamRules rules = BeamRules::kWu;
  bool early_stopping = false;  // a sentence is done as soon as beam_size hypotheses have ended
  bool renormalizes = false;    // probabilities of ids that are not forbidden sum to 1
  // Number of source tokens translated together. Batches of very short sentences have fewer: a
  // batch has room for at most kPlacesPerToken times this many translated tokens, which use the
  // memory.
  int64_t batch_tokens = 4096;
  static constexpr int64_t kPlacesPerToken = 4;
  std::function<bool()> stop =
      {};  // called between steps; if it returns true, the search ends with the results so far
};

struct Hypothesis {
  std::vector<int32_t> ids;  // without the end symbol
  float score = 0.0f;        // normalised by length
  float log_probability = 0.0f;
};

// Returns up to n_best hypotheses for each source (ids including the end symbol), best first. A
// source that is empty or holds only the end symbol gets one empty hypothesis. Throws CheckError if
// a source is longer than the model's max_positions, or if the context is training.
std::vector<std::vector<Hypothesis>> BeamSearch(Seq2SeqTransformer& model,
                                                std::span<const std::vector<int32_t>> sources,
                                                const BeamSearchOptions& options, Context& ctx);

}  // namespace dtrain

#endif  // DTRAIN_MODELS_BEAM_SEARCH_H_
