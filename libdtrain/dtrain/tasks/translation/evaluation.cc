// evaluation.cc - the loss over batches, then translations by beam search, shared among the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/comm/gather.h"
#include "dtrain/data/typical_pairs.h"
#include "dtrain/metrics/bleu.h"
#include "dtrain/metrics/chrf.h"
#include "dtrain/runs/row_values.h"
#include "dtrain/tasks/shared/evaluated_rows.h"
#include "dtrain/tasks/translation/internal/batch.h"
#include "dtrain/tasks/translation/loader.h"
#include "dtrain/tasks/translation/translator.h"

namespace dtrain {

using internal::IdsOf;
using internal::ToTranslationBatch;

namespace {

// The sums of the columns.
template <size_t kWidth>
void AddUp(const std::vector<float>& rows, std::array<int64_t, kWidth>& sums) {
  for (size_t i = 0; i < rows.size(); ++i) sums[i % kWidth] += static_cast<int64_t>(rows[i]);
}

}  // namespace

StatusOr<EvaluationResult> TranslationEvaluator::Evaluate(const TranslationSet& set,
                                                          int64_t max_sentences, Context& ctx) {
  const std::vector<uint32_t> rows = EveryKthRow(set.shard.size(), max_sentences);
  EvaluationResult result = EvaluateLoss(set.shard, rows, ctx);
  DT_RETURN_IF_ERROR(EvaluateTranslations(set, rows, ctx, result));
  return result;
}

std::vector<uint32_t> TranslationEvaluator::OwnPlaces(const std::vector<uint32_t>& rows,
                                                      const TranslationSet& set) const {
  std::vector<uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return set.shard.source_length(rows[a]) > set.shard.source_length(rows[b]);
  });
  std::vector<uint32_t> own;
  for (size_t i = static_cast<size_t>(comm_.rank()); i < order.size();
       i += static_cast<size_t>(comm_.size())) {
    own.push_back(order[i]);
  }
  return own;
}

EvaluationResult TranslationEvaluator::EvaluateLoss(const TokenShard& shard,
                                                    const std::vector<uint32_t>& rows,
                                                    Context& ctx) {
  const SampleLengths lengths = LengthsOf(shard);
  // Of a batch at its first pair. Those of one rank, with zeros where others have theirs, until
  // they are shared: so the sums are those of one process, to the last bit.
  std::vector<double> losses(rows.size()), nlls(rows.size());
  std::vector<float> row_nlls(rows.size());
  BleuStatistics teacher_forced;
  std::vector<int32_t> predictions;
  std::vector<float> token_nlls;
  for (const RowBatch& own :
       BatchesOfRows(rows, lengths, options_.batch_tokens, comm_, BudgetUnit::kLongerSide)) {
    PairBatch packed = PackPairs(shard, own.rows, IdsOf(tokenizer_));
    const TranslationBatch batch = ToTranslationBatch(packed);
    const LossSums sums = model_.Forward(batch, ctx, &predictions, &token_nlls);
    losses[own.places.front()] = sums.loss;
    nlls[own.places.front()] = sums.nll;
    for (int64_t s = 0; s < batch.target.count(); ++s) {
      const auto slice = [&](const auto& tokens) {
        return std::span(tokens).subspan(static_cast<size_t>(batch.target.begin(s)),
                                         static_cast<size_t>(batch.target.length(s)));
      };
      teacher_forced += CountTokenBleu(slice(std::as_const(predictions)), slice(batch.target_ids),
                                       {.end_id = tokenizer_.eos_id()});
      const std::span<const float> of_row = slice(std::as_const(token_nlls));
      row_nlls[own.places[static_cast<size_t>(s)]] =
          std::accumulate(of_row.begin(), of_row.end(), 0.0F);
    }
  }
  comm_.AllReduce(std::span<double>(losses), ReduceOp::kSum);
  comm_.AllReduce(std::span<double>(nlls), ReduceOp::kSum);
  comm_.AllReduce(std::span<float>(row_nlls), ReduceOp::kSum);
  comm_.AllReduce(std::span<int64_t>(teacher_forced.counts), ReduceOp::kSum);
  std::vector<float> row_tokens;
  int64_t tokens = 0;
  for (const uint32_t row : rows) {
    tokens += lengths.TargetTokens(row);
    row_tokens.push_back(static_cast<float>(lengths.TargetTokens(row)));
  }
  const auto mean = [&](const std::vector<double>& sums) {
    return std::accumulate(sums.begin(), sums.end(), 0.0) /
           static_cast<double>(std::max<int64_t>(tokens, 1));
  };
  EvaluationResult result;
  result.metrics.emplace_back("loss", mean(losses));
  result.metrics.emplace_back("nll", mean(nlls));
  result.metrics.emplace_back("ppl", std::exp(mean(nlls)));
  result.metrics.emplace_back("bleu_tf", ComputeTokenBleu(teacher_forced));
  result.rows.rows.assign(rows.begin(), rows.end());
  result.rows.AddRatio("nll", std::move(row_nlls), std::move(row_tokens));
  return result;
}

Status TranslationEvaluator::EvaluateTranslations(const TranslationSet& set,
                                                  const std::vector<uint32_t>& rows, Context& ctx,
                                                  EvaluationResult& result) {
  const std::vector<uint32_t> own = OwnPlaces(rows, set);
  std::vector<std::vector<int32_t>> sources(own.size());
  std::vector<std::string> references(own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    const uint32_t row = rows[own[i]];
    set.shard.AppendSource(row, sources[i]);
    sources[i].push_back(tokenizer_.eos_id());
    references[i] = set.references[row];
  }
  BeamSearchOptions search = SearchOptionsFor(tokenizer_, options_.search);
  search.batch_tokens = options_.batch_tokens;
  const auto translations = TranslateIds(model_, tokenizer_, sources, search, ctx);
  std::vector<std::string> hypotheses(own.size());
  for (size_t i = 0; i < own.size(); ++i) hypotheses[i] = translations[i].front().text;
  DT_RETURN_IF_ERROR(AddScores(own, hypotheses, references, result));
  GatherSamples(set, rows, own, hypotheses, result);
  return OkStatus();
}

Status TranslationEvaluator::AddScores(const std::vector<uint32_t>& own,
                                       const std::vector<std::string>& hypotheses,
                                       const std::vector<std::string>& references,
                                       EvaluationResult& result) {
  const size_t rows = result.rows.rows.size();
  BleuStatistics bleu;
  ChrfStatistics chrf;
  const size_t bleu_width = bleu.counts.size();
  const size_t chrf_width = chrf.counts.size();
  // Zeros where other ranks have their counts. Floats are exact: no sentence has millions of words.
  std::vector<float> bleu_rows(rows * bleu_width), chrf_rows(rows * chrf_width);
  ParallelFor(static_cast<int64_t>(own.size()), 64, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const std::vector<std::vector<std::string>> reference = {{references[i]}};
      const std::span<const std::string> hypothesis(&hypotheses[i], 1);
      const StatusOr<BleuStatistics> of_bleu = CountBleu(hypothesis, reference);
      const StatusOr<ChrfStatistics> of_chrf = CountChrf(hypothesis, reference);
      DT_CHECK(of_bleu.ok() && of_chrf.ok()) << "a line against a line";
      std::copy(of_bleu->counts.begin(), of_bleu->counts.end(), &bleu_rows[own[i] * bleu_width]);
      std::copy(of_chrf->counts.begin(), of_chrf->counts.end(), &chrf_rows[own[i] * chrf_width]);
    }
  });
  AddUp(bleu_rows, bleu.counts);
  AddUp(chrf_rows, chrf.counts);
  comm_.AllReduce(std::span<int64_t>(bleu.counts), ReduceOp::kSum);
  comm_.AllReduce(std::span<int64_t>(chrf.counts), ReduceOp::kSum);
  comm_.AllReduce(std::span<float>(bleu_rows), ReduceOp::kSum);
  comm_.AllReduce(std::span<float>(chrf_rows), ReduceOp::kSum);
  result.rows.columns.push_back({.name = std::string(kBleuColumn),
                                 .width = static_cast<int64_t>(bleu_width),
                                 .values = std::move(bleu_rows)});
  result.rows.columns.push_back({.name = std::string(kChrfColumn),
                                 .width = static_cast<int64_t>(chrf_width),
                                 .values = std::move(chrf_rows)});
  const BleuScore score = ComputeBleu(bleu);
  result.metrics.emplace_back("bleu", score.score);
  result.metrics.emplace_back("chrf", ComputeChrf(chrf));
  result.notes.push_back(absl::StrCat("BLEU|", BleuSignature(1), " = ", score.Verbose()));
  result.notes.push_back(absl::StrCat("chrF2|", ChrfSignature(1)));
  return OkStatus();
}

void TranslationEvaluator::GatherSamples(const TranslationSet& set,
                                         const std::vector<uint32_t>& rows,
                                         const std::vector<uint32_t>& own,
                                         const std::vector<std::string>& hypotheses,
                                         EvaluationResult& result) {
  std::vector<std::string> sources;
  std::vector<std::string> references;
  for (const uint32_t row : rows) {
    sources.push_back(set.sources[row]);
    references.push_back(set.references[row]);
  }
  for (const size_t place :
       TypicalPairs(sources, references, static_cast<size_t>(options_.samples))) {
    const auto found = std::find(own.begin(), own.end(), static_cast<uint32_t>(place));
    const std::string mine =
        found == own.end() ? "" : hypotheses[static_cast<size_t>(found - own.begin())];
    std::string hypothesis;
    for (const std::string& text : AllGatherStrings(comm_, mine)) hypothesis += text;
    result.samples.push_back({sources[place], references[place], hypothesis});
  }
}

}  // namespace dtrain
