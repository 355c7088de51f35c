// evaluation_history.cc - compares the losses of the last evaluations with those of training.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/evaluation_history.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace dtrain {
namespace {

constexpr size_t kRises = 3;

}  // namespace

void EvaluationHistory::AddUpdates(const StepRecord& record) {
  train_sum_ += record.nll;
  ++train_records_;
}

std::string EvaluationHistory::AddEvaluation(const EvaluationRecord& record) {
  const EvaluationResult& result = *record.result;
  if (record.is_best) {
    best_step_ = record.step;
    best_ = result;
  }
  const char* const loss = result.Has("nll") ? "nll" : "loss";
  if (record.is_repeated || !result.Has(loss)) return "";
  // Without records this is NaN, and such an evaluation proves nothing.
  const double train = std::exchange(train_sum_, 0.0) / static_cast<double>(train_records_);
  train_records_ = 0;
  points_.push_back({record.step, result.Metric(loss), train});
  if (has_warned_ || !IsOverfitting()) return "";
  has_warned_ = true;
  const Point& first = points_[points_.size() - 1 - kRises];
  return absl::StrFormat(
      "the %s on the dev set has risen in %d evaluations in a row, from %.4f (update %d) to %.4f, "
      "while that of training fell from %.4f to %.4f: the model overfits; train shorter, use more "
      "data, or a higher dropout",
      loss, kRises, first.dev, first.step, points_.back().dev, first.train, points_.back().train);
}

bool EvaluationHistory::IsOverfitting() const {
  if (points_.size() <= kRises) return false;
  for (size_t i = points_.size() - kRises; i < points_.size(); ++i) {
    const Point& before = points_[i - 1];
    // Written so that NaN is no rise.
    if (!(points_[i].dev > before.dev && points_[i].train < before.train)) return false;
  }
  return true;
}

const EvaluationResult* EvaluationHistory::BestAt(int64_t step) const {
  return best_ && best_step_ == step ? &*best_ : nullptr;
}

bool EvaluationHistory::EndsWithBest() const {
  return points_.size() > 1 && points_.back().step == best_step_;
}

}  // namespace dtrain
