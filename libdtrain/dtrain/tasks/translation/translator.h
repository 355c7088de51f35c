// translator.h - text in, text out: tokenizer, beam search and detokenizer around a model.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_TRANSLATOR_H_
#define DTRAIN_TASKS_TRANSLATION_TRANSLATOR_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/models/beam_search.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nn/context.h"
#include "dtrain/tasks/translation/translation_model.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"

namespace dtrain {

// The beam search of a tokenizer's model: `options` with its end symbol and without pieces that no
// translation holds.
BeamSearchOptions SearchOptionsFor(const TranslationTokenizer& tokenizer,
                                   BeamSearchOptions options);

// Translations of each source (pieces and end symbol), best first, options.n_best of them at most.
std::vector<std::vector<Translation>> TranslateIds(Seq2SeqTransformer& model,
                                                   const TranslationTokenizer& tokenizer,
                                                   std::span<const std::vector<int32_t>> sources,
                                                   const BeamSearchOptions& options, Context& ctx);

// The same from lines of text. A line of more pieces than the model has positions is cut;
// `notes`, unless null, receives which ones.
std::vector<std::vector<Translation>> TranslateLines(Seq2SeqTransformer& model,
                                                     const TranslationTokenizer& tokenizer,
                                                     std::span<const std::string> lines,
                                                     const BeamSearchOptions& options, Context& ctx,
                                                     LineNotes* notes = nullptr);

// Loss sums of given translations under teacher forcing, end symbols included: exp(nll / tokens) is
// the perplexity. Lines are cut as above, `target_notes` receives which targets; line i
// of `targets` belongs to line i of `sources`.
LossSums ScoreLines(Seq2SeqTransformer& model, const TranslationTokenizer& tokenizer,
                    std::span<const std::string> sources, std::span<const std::string> targets,
                    int64_t batch_tokens, Context& ctx, LineNotes* target_notes = nullptr);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_TRANSLATOR_H_
