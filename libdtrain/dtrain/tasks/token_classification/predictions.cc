// predictions.cc - puts the ranks' tags together, measures and writes them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/predictions.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"
#include "dtrain/base/file.h"
#include "dtrain/data/batching.h"
#include "dtrain/tasks/token_classification/metrics.h"

namespace dtrain {

TagPredictions PredictTags(BertTokenClassifier& model, const TaggedRows& rows, int64_t batch_tokens,
                           Communicator& comm, Context& ctx) {
  DT_CHECK(!ctx.training()) << "predictions are taken without dropout";
  const auto words = static_cast<size_t>(rows.first_word(rows.size()));
  const int64_t num_tags = model.options().num_tags;
  TagPredictions predictions{.tags = std::vector<int32_t>(words),
                             .losses = std::vector<float>(words)};
  for (const std::vector<uint32_t>& chosen : EvaluationBatches(
           {.source = rows.lengths(), .added = 0}, batch_tokens, comm.rank(), comm.size())) {
    TaggingOutputs outputs;
    model.Forward(rows.Pack(chosen), ctx, &outputs);
    size_t from = 0;
    for (const uint32_t row : chosen) {
      auto to = static_cast<size_t>(rows.first_word(row));
      for (int64_t i = 0; i < rows.num_words(row); ++i, ++from, ++to) {
        const auto begin = outputs.logits.begin() + static_cast<int64_t>(from) * num_tags;
        predictions.tags[to] =
            static_cast<int32_t>(std::max_element(begin, begin + num_tags) - begin);
        predictions.losses[to] = outputs.losses[from];
      }
    }
  }
  // One rank has a word, the others have zeros there: the sums are exact.
  comm.AllReduce(std::span(predictions.tags), ReduceOp::kSum);
  comm.AllReduce(std::span(predictions.losses), ReduceOp::kSum);
  return predictions;
}

std::vector<std::vector<std::string>> NamesOf(const ConllSet& set,
                                              const TagPredictions& predictions,
                                              const std::vector<std::string>& tags) {
  std::vector<std::vector<std::string>> names;
  size_t word = 0;
  for (const TaggedSentence& sentence : set.sentences) {
    std::vector<std::string>& of_sentence = names.emplace_back();
    for (size_t i = 0; i < sentence.words.size(); ++i) {
      of_sentence.push_back(tags[static_cast<size_t>(predictions.tags[word++])]);
    }
  }
  return names;
}

std::vector<std::string> TaggingMetricNames() {
  return {"loss", "f1", "precision", "recall", "accuracy"};
}

EvaluationResult EvaluateTags(const ConllSet& set, const TagPredictions& predictions,
                              const std::vector<std::string>& tags) {
  const std::vector<std::vector<std::string>> names = NamesOf(set, predictions, tags);
  EntityCounts entities;
  int64_t same = 0;
  RowValues rows;
  std::vector<float> f1_sums, f1_counts, right, words_of;
  for (size_t s = 0; s < names.size(); ++s) {
    const std::vector<std::string>& gold = set.sentences[s].tags;
    EntityCounts own;
    own.Add(gold, names[s]);
    entities.Add(gold, names[s]);
    int64_t same_here = 0;
    for (size_t i = 0; i < gold.size(); ++i) same_here += gold[i] == names[s][i];
    same += same_here;
    rows.rows.push_back(static_cast<int32_t>(s));
    f1_sums.push_back(static_cast<float>(2 * own.correct));
    f1_counts.push_back(static_cast<float>(own.predicted + own.gold));
    right.push_back(static_cast<float>(same_here));
    words_of.push_back(static_cast<float>(gold.size()));
  }
  rows.AddRatio("f1", std::move(f1_sums), std::move(f1_counts));
  rows.AddRatio("accuracy", std::move(right), std::move(words_of));
  double loss = 0.0;
  for (const float of_word : predictions.losses) loss += double{of_word};
  const auto words = static_cast<double>(set.words);
  const double values[] = {loss / words, entities.F1(), entities.Precision(), entities.Recall(),
                           static_cast<double>(same) / words};
  const std::vector<std::string> metrics = TaggingMetricNames();
  EvaluationResult result{.rows = std::move(rows)};
  for (size_t i = 0; i < metrics.size(); ++i) result.metrics.emplace_back(metrics[i], values[i]);
  return result;
}

Status WriteTags(const std::string& path, const ConllSet& set, const TagPredictions& predictions,
                 const std::vector<std::string>& tags) {
  const std::vector<std::vector<std::string>> names = NamesOf(set, predictions, tags);
  std::string text;
  for (size_t s = 0; s < names.size(); ++s) {
    const TaggedSentence& sentence = set.sentences[s];
    for (size_t i = 0; i < sentence.words.size(); ++i) {
      absl::StrAppend(&text, sentence.words[i], " ");
      if (!sentence.tags.empty()) absl::StrAppend(&text, sentence.tags[i], " ");
      absl::StrAppend(&text, names[s][i], "\n");
    }
    text += "\n";
  }
  return WriteFileAtomically(path, text);
}

}  // namespace dtrain
