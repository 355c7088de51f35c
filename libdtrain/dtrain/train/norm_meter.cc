// norm_meter.cc - squares of pieces of tensors, added up by group.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/norm_meter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace dtrain {
namespace {

constexpr int64_t kPieces = 8;
constexpr int64_t kPieceElements = 2048;

double SumOfSquares(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += double{value} * double{value};
  return sum;
}

bool IsNumber(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == part.npos;
}

std::string_view PartOfLayer(std::string_view name) {
  // The norm of an attention block is a norm.
  for (const std::string_view word : {"norm", "Norm", "ln_"}) {
    if (name.find(word) != name.npos) return "norms";
  }
  return name.find("att") != name.npos ? "attention" : "feed_forward";
}

}  // namespace

std::string GroupOfParameter(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (IsNumber(name.substr(begin, end - begin))) {
      std::string group(name.substr(0, end));
      group += '.';
      group += PartOfLayer(name.substr(end));
      return group;
    }
    begin = end + 1;
  }
  const size_t last = name.rfind('.');
  return std::string(last == name.npos ? name : name.substr(0, last));
}

std::vector<float> NormMeter::Pieces(const Parameter& parameter, const Tensor& arena,
                                     Stream& stream) const {
  const int64_t begin = parameter.offset();
  const int64_t elements = parameter.shape().elements();
  if (elements <= kPieces * kPieceElements) {
    return Download<float>(arena.Rows(begin, begin + elements), stream);
  }
  std::vector<float> values;
  for (int64_t i = 0; i < kPieces; ++i) {
    const int64_t from = begin + i * (elements - kPieceElements) / (kPieces - 1);
    const std::vector<float> piece =
        Download<float>(arena.Rows(from, from + kPieceElements), stream);
    values.insert(values.end(), piece.begin(), piece.end());
  }
  return values;
}

void NormMeter::Before(Stream& stream) {
  weights_.clear();
  gradient_squares_.clear();
  for (const Parameter* const parameter : parameters_.in_backward_order()) {
    weights_.push_back(Pieces(*parameter, parameters_.weights(), stream));
    gradient_squares_.push_back(SumOfSquares(Pieces(*parameter, parameters_.gradients(), stream)));
  }
}

void NormMeter::After(int64_t step, Stream& stream) {
  struct Squares {
    double gradient = 0.0, weight = 0.0, update = 0.0;
  };
  std::map<std::string, Squares> groups;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const Parameter& parameter = *parameters_.in_backward_order()[i];
    const std::vector<float> now = Pieces(parameter, parameters_.weights(), stream);
    // The elements that were not looked at count like the others.
    const double factor =
        static_cast<double>(parameter.shape().elements()) / static_cast<double>(now.size());
    Squares& squares = groups[GroupOfParameter(parameter.name())];
    squares.weight += factor * SumOfSquares(weights_[i]);
    squares.gradient += factor * gradient_squares_[i];
    for (size_t k = 0; k < now.size(); ++k) {
      const double moved = double{now[k]} - double{weights_[i][k]};
      squares.update += factor * moved * moved;
    }
  }
  measured_.clear();
  measured_step_ = step;
  for (const auto& [name, squares] : groups) {
    measured_.push_back({.group = name,
                         .gradient = std::sqrt(squares.gradient),
                         .weight = std::sqrt(squares.weight),
                         .update_share = std::sqrt(squares.update / squares.weight)});
  }
}

std::vector<GroupNorms> NormMeter::Take(int64_t step, double gradient_norm) {
  if (step != measured_step_) return {};
  measured_step_ = -1;
  double squares = 0.0;
  for (const GroupNorms& norms : measured_) squares += norms.gradient * norms.gradient;
  const double factor = squares > 0.0 ? gradient_norm / std::sqrt(squares) : 0.0;
  for (GroupNorms& norms : measured_) norms.gradient *= factor;
  return std::exchange(measured_, {});
}

}  // namespace dtrain
