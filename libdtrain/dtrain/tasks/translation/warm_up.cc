// warm_up.cc - made-up sentence pairs.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/warm_up.h"

#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/tasks/shared/internal/warm_up_steps.h"

namespace dtrain {
namespace {

using internal::DrawIds;
using internal::EvenSequences;
using internal::ShareOf;

// `share` of the planned batch.
TranslationBatch SampleBatch(const Seq2SeqBatch& planned, const Seq2SeqOptions& model,
                             double share) {
  RandomStream random({.seed = 1});
  const int64_t pairs =
      ShareOf(share, static_cast<double>(planned.target_tokens) / planned.target_length);
  TranslationBatch batch;
  batch.source = EvenSequences(ShareOf(share, static_cast<double>(planned.source_tokens)), pairs);
  batch.target = EvenSequences(ShareOf(share, static_cast<double>(planned.target_tokens)), pairs);
  batch.source_ids = DrawIds(batch.source.tokens(), model.source_vocab(), random);
  batch.decoder_ids = DrawIds(batch.target.tokens(), model.vocab_size, random);
  batch.target_ids = DrawIds(batch.target.tokens(), model.vocab_size, random);
  return batch;
}

}  // namespace

std::function<void()> WarmUpSteps(Seq2SeqTransformer& model, const Seq2SeqBatch& batch,
                                  const Device& device, const ContextOptions& options) {
  return internal::WarmUpStepsOf(model, SampleBatch, batch, device, options);
}

}  // namespace dtrain
