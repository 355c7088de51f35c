// evaluation.cc - the loss over batches, then translations by beam search, shared among the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "dtrain/comm/gather.h"
#include "dtrain/data/typical_pairs.h"
#include "dtrain/metrics/bleu.h"
#include "dtrain/metrics/chrf.h"
#include "dtrain/tasks/translation/internal/batch.h"
#include "dtrain/tasks/translation/translator.h"

namespace dtrain {

using internal::IdsOf;
using internal::ToTranslationBatch;

StatusOr<EvaluationResult> TranslationEvaluator::Evaluate(const TranslationSet& set,
                                                          int64_t max_sentences, Context& ctx) {
  EvaluationResult result;
  const int64_t count =
      max_sentences > 0 ? std::min(max_sentences, set.shard.size()) : set.shard.size();
  const std::vector<uint32_t> own = OwnSentences(count, set);
  EvaluateLoss(set, count, ctx, result);
  DT_RETURN_IF_ERROR(EvaluateTranslations(set, own, count, ctx, result));
  return result;
}

std::vector<uint32_t> TranslationEvaluator::OwnSentences(int64_t count,
                                                         const TranslationSet& set) const {
  std::vector<uint32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return set.shard.source_length(a) > set.shard.source_length(b);
  });
  std::vector<uint32_t> own;
  for (size_t i = static_cast<size_t>(comm_.rank()); i < order.size();
       i += static_cast<size_t>(comm_.size())) {
    own.push_back(order[i]);
  }
  return own;
}

void TranslationEvaluator::EvaluateLoss(const TranslationSet& set, int64_t count, Context& ctx,
                                        EvaluationResult& result) {
  const auto pairs = static_cast<size_t>(count);
  const SampleLengths lengths{.source = set.shard.source_lengths().first(pairs),
                              .target = set.shard.target_lengths().first(pairs)};
  // Of a batch at its first pair. Those of one rank, with zeros where others have theirs, until
  // they are shared: so the sums are those of one process, to the last bit.
  std::vector<double> losses(pairs), nlls(pairs);
  BleuStatistics teacher_forced;
  std::vector<int32_t> predictions;
  for (const std::vector<uint32_t>& own : EvaluationBatches(
           lengths, options_.batch_tokens, comm_.rank(), comm_.size(), BudgetUnit::kLongerSide)) {
    PairBatch packed = PackPairs(set.shard, own, IdsOf(tokenizer_));
    const TranslationBatch batch = ToTranslationBatch(packed);
    const LossSums sums = model_.Forward(batch, ctx, &predictions);
    losses[own.front()] = sums.loss;
    nlls[own.front()] = sums.nll;
    for (int64_t s = 0; s < batch.target.count(); ++s) {
      const auto slice = [&](const std::vector<int32_t>& ids) {
        return std::span(ids).subspan(static_cast<size_t>(batch.target.begin(s)),
                                      static_cast<size_t>(batch.target.length(s)));
      };
      teacher_forced += CountTokenBleu(slice(predictions), slice(batch.target_ids),
                                       {.end_id = tokenizer_.eos_id()});
    }
  }
  comm_.AllReduce(std::span<double>(losses), ReduceOp::kSum);
  comm_.AllReduce(std::span<double>(nlls), ReduceOp::kSum);
  comm_.AllReduce(std::span<int64_t>(teacher_forced.counts), ReduceOp::kSum);
  int64_t tokens = 0;
  for (int64_t i = 0; i < count; ++i) tokens += lengths.TargetTokens(i);
  const auto mean = [&](const std::vector<double>& sums) {
    return std::accumulate(sums.begin(), sums.end(), 0.0) /
           static_cast<double>(std::max<int64_t>(tokens, 1));
  };
  result.metrics.emplace_back("loss", mean(losses));
  result.metrics.emplace_back("nll", mean(nlls));
  result.metrics.emplace_back("ppl", std::exp(mean(nlls)));
  result.metrics.emplace_back("bleu_tf", ComputeTokenBleu(teacher_forced));
}

Status TranslationEvaluator::EvaluateTranslations(const TranslationSet& set,
                                                  const std::vector<uint32_t>& own, int64_t count,
                                                  Context& ctx, EvaluationResult& result) {
  std::vector<std::vector<int32_t>> sources(own.size());
  std::vector<std::string> references(own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    set.shard.AppendSource(own[i], sources[i]);
    sources[i].push_back(tokenizer_.eos_id());
    references[i] = set.references[own[i]];
  }
  BeamSearchOptions search = SearchOptionsFor(tokenizer_, options_.search);
  search.batch_tokens = options_.batch_tokens;
  const auto translations = TranslateIds(model_, tokenizer_, sources, search, ctx);
  std::vector<std::string> hypotheses(own.size());
  for (size_t i = 0; i < own.size(); ++i) hypotheses[i] = translations[i].front().text;
  BleuStatistics bleu;
  ChrfStatistics chrf;
  if (!own.empty()) {
    const std::vector<std::vector<std::string>> reference_sets = {references};
    DT_ASSIGN_OR_RETURN(bleu, CountBleu(hypotheses, reference_sets));
    DT_ASSIGN_OR_RETURN(chrf, CountChrf(hypotheses, reference_sets));
  }
  comm_.AllReduce(std::span<int64_t>(bleu.counts), ReduceOp::kSum);
  comm_.AllReduce(std::span<int64_t>(chrf.counts), ReduceOp::kSum);
  const BleuScore score = ComputeBleu(bleu);
  result.metrics.emplace_back("bleu", score.score);
  result.metrics.emplace_back("chrf", ComputeChrf(chrf));
  result.notes.push_back(absl::StrCat("BLEU|", BleuSignature(1), " = ", score.Verbose()));
  result.notes.push_back(absl::StrCat("chrF2|", ChrfSignature(1)));
  GatherSamples(set, own, count, hypotheses, result);
  return OkStatus();
}

void TranslationEvaluator::GatherSamples(const TranslationSet& set,
                                         const std::vector<uint32_t>& own, int64_t count,
                                         const std::vector<std::string>& hypotheses,
                                         EvaluationResult& result) {
  const auto sentences = static_cast<size_t>(count);
  const auto samples = static_cast<size_t>(options_.samples);
  for (const size_t index : TypicalPairs(std::span(set.sources).first(sentences),
                                         std::span(set.references).first(sentences), samples)) {
    const auto found = std::find(own.begin(), own.end(), static_cast<uint32_t>(index));
    const std::string mine =
        found == own.end() ? "" : hypotheses[static_cast<size_t>(found - own.begin())];
    std::string hypothesis;
    for (const std::string& text : AllGatherStrings(comm_, mine)) hypothesis += text;
    result.samples.push_back({set.sources[index], set.references[index], hypothesis});
  }
}

}  // namespace dtrain
