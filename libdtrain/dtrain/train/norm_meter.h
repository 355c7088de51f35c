// norm_meter.h - norms of gradients, weights and updates, by groups of a model's parameters.
// SPDX-License-Identifier: Apache-2.0
//
//   NormMeter norms(task.parameters(), /*every=*/100);
//   if (norms.IsDue(step)) norms.Before(stream);
//   optimizer.Step(...);
//   if (norms.IsDue(step)) norms.After(step, stream);
//   record.norms = norms.Take(step, gradient_norm);
//
// It looks at no more than 16,384 elements of each tensor, in eight pieces at equal distances, and
// takes the others for like them: so the cost does not grow with the model, and is the same on
// every device. For most tensors of a small model these are all elements. It changes no weight.
#ifndef DTRAIN_TRAIN_NORM_METER_H_
#define DTRAIN_TRAIN_NORM_METER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/device/stream.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/train/train_observer.h"

namespace dtrain {

// The group of a parameter: "model.encoder.layers.0.attention" for all of the attention of a layer;
// the other parts of a layer are "feed_forward" and "norms". A parameter of no layer is a group of
// its own, without its last part: "model.shared" for "model.shared.weight".
std::string GroupOfParameter(std::string_view name);

class NormMeter {
 public:
  // Measures one update of `every`; 0: none. The parameters outlive this.
  NormMeter(ParameterSet& parameters, int64_t every) : parameters_(parameters), every_(every) {}

  bool IsDue(int64_t step) const { return every_ > 0 && step % every_ == 0; }
  // Before the optimizer's step, when the gradients are those of all ranks; and after it.
  void Before(Stream& stream);
  void After(int64_t step, Stream& stream);
  // The norms of that update, once; empty if it was not measured. Gradients lack the factors of
  // loss scale and tokens, so they are scaled to what the norm of all of them is known to be.
  std::vector<GroupNorms> Take(int64_t step, double gradient_norm);

 private:
  std::vector<float> Pieces(const Parameter& parameter, const Tensor& arena, Stream& stream) const;

  ParameterSet& parameters_;
  int64_t every_;
  std::vector<std::vector<float>> weights_;  // of each parameter, before the step
  std::vector<double> gradient_squares_;
  std::vector<GroupNorms> measured_;
  int64_t measured_step_ = -1;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_NORM_METER_H_
