// local_update_average.cc - means weighted by tokens, through the host's memory.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/local_update_average.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/tensor.h"

namespace dtrain::internal {
namespace {

constexpr int64_t kGrain = 1 << 16;

std::vector<float> ToVector(const Tensor& values) {
  Stream stream(values.device());
  SynchronizeDevice(values.device());
  return Download<float>(values, stream);
}

void FromVector(const std::vector<float>& from, Tensor& to) {
  Stream stream(to.device());
  CopyToDevice(to.raw(), from.data(), to.bytes(), stream);
  stream.Synchronize();
}

// Calls body(index, begin, end) for each parameter: elements [begin, end) of the flat tensors.
template <typename Body>
void ForParameters(const ParameterSet& parameters, const Body& body) {
  const std::vector<Parameter*>& all = parameters.in_backward_order();
  ParallelFor(static_cast<int64_t>(all.size()), 1, [&](int64_t first, int64_t last) {
    for (auto p = static_cast<size_t>(first); p < static_cast<size_t>(last); ++p) {
      const auto begin = static_cast<size_t>(all[p]->offset());
      body(p, begin, begin + static_cast<size_t>(all[p]->shape().elements()));
    }
  });
}

}  // namespace

LocalUpdateAverage::LocalUpdateAverage(int64_t length, ParameterSet& parameters, Adam& adam,
                                       Communicator& comm)
    : length_(length),
      parameters_(parameters),
      adam_(adam),
      comm_(comm),
      start_weights_(ToVector(parameters.weights())),
      start_second_(ToVector(adam.second_moments())) {}

void LocalUpdateAverage::Average() {
  const int64_t all = comm_.AllReduceValue(tokens_, ReduceOp::kSum);
  const double share = all > 0 ? static_cast<double>(tokens_) / static_cast<double>(all)
                               : 1.0 / static_cast<double>(comm_.size());
  const std::vector<float> own_second = ToVector(adam_.second_moments());
  AverageMoments(share, own_second);
  AverageMoves(share, own_second);
  if (adam_.average()) Average(adam_.average(), share);
  parameters_.RefreshComputeWeights();
  tokens_ = 0;
  updates_ = 0;
  is_pending_ = false;
}

void LocalUpdateAverage::AverageMoves(double share, const std::vector<float>& own_second) {
  const AdamConfig& config = adam_.config();
  // Ranks that skipped updates have made fewer; epsilon is too small for the difference to matter.
  const double seen = 1.0 - std::pow(config.CorrectedBeta2(), static_cast<double>(adam_.steps()));
  const auto epsilon = static_cast<float>(config.epsilon * std::sqrt(seen));
  const auto factor = static_cast<float>(share);
  std::vector<float> weights = ToVector(parameters_.weights());
  ParallelFor(static_cast<int64_t>(weights.size()), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const float own = std::sqrt(own_second[i]) + epsilon;
      const float common = std::sqrt(start_second_[i]) + epsilon;
      const float move = (weights[i] - start_weights_[i]) * (common > 0.0f ? own / common : 1.0f);
      weights[i] = factor > 0.0f ? factor * move : 0.0f;  // a rank without a part may hold NaN
    }
  });
  comm_.AllReduce(weights.data(), static_cast<int64_t>(weights.size()), DType::kFloat32,
                  ReduceOp::kSum);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] += start_weights_[i];
  FromVector(weights, parameters_.weights());
  start_weights_ = std::move(weights);
}

void LocalUpdateAverage::AverageMoments(double share, const std::vector<float>& own_second) {
  const double beta1 = adam_.config().beta1;
  const double kept = std::pow(adam_.config().beta2, static_cast<double>(updates_));
  // The share of a gradient's variance that the first moment has.
  const double held =
      (1.0 - beta1) / (1.0 + beta1) * (1.0 - std::pow(beta1, 2.0 * static_cast<double>(updates_)));
  const double noise_of_spread = updates_ > 0 ? share * (1.0 - kept) / held : 0.0;
  const std::vector<float> own_first = ToVector(adam_.first_moments());
  Average(adam_.first_moments(), share);
  Average(adam_.second_moments(), share);
  const std::vector<float> first = ToVector(adam_.first_moments());

  // For each parameter: what the local updates added; then, again for each, the noise in it.
  const size_t count = parameters_.in_backward_order().size();
  std::vector<double> sums(2 * count);
  ForParameters(parameters_, [&](size_t p, size_t begin, size_t end) {
    double added = 0.0, spread = 0.0;
    for (size_t i = begin; i < end; ++i) {
      const double distance = static_cast<double>(own_first[i]) - static_cast<double>(first[i]);
      spread += distance * distance;
      added += static_cast<double>(own_second[i]) - kept * static_cast<double>(start_second_[i]);
    }
    sums[p] = share * added;
    sums[count + p] = noise_of_spread * spread;
  });
  comm_.AllReduce(std::span<double>(sums), ReduceOp::kSum);
  std::array<double, 2> shares = {share * share, share * kept};
  comm_.AllReduce(std::span<double>(shares), ReduceOp::kSum);

  std::vector<float> second = ToVector(adam_.second_moments());
  ForParameters(parameters_, [&](size_t p, size_t begin, size_t end) {
    const double added = sums[p];
    const double noise = sums[count + p];
    if (!(noise > 0.0)) return;  // also where a rank's gradients were not finite
    const auto part = static_cast<float>(std::clamp(noise / added, 0.0, 1.0 - shares[0]));
    const auto left = static_cast<float>(shares[1]);
    for (size_t i = begin; i < end; ++i) second[i] -= part * (second[i] - left * start_second_[i]);
  });
  FromVector(second, adam_.second_moments());
  start_second_ = std::move(second);
}

void LocalUpdateAverage::Average(Tensor& values, double share) {
  Stream stream(values.device());
  SynchronizeDevice(values.device());
  const Tensor host = ToHost(values, stream);
  float* const data = host.data<float>();
  const auto factor = static_cast<float>(share);
  ParallelFor(host.elements(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) data[i] *= factor;
  });
  comm_.AllReduce(data, host.elements(), DType::kFloat32, ReduceOp::kSum);
  if (host.raw() == values.raw()) return;
  CopyToDevice(values.raw(), host.raw(), host.bytes(), stream);
  stream.Synchronize();
}

}  // namespace dtrain::internal
