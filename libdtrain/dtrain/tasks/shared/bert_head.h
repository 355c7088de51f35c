// bert_head.h - what a task puts on a BERT encoder, for planning memory and time.
// SPDX-License-Identifier: Apache-2.0
//
// A run makes its head from the task's model; `dtrain estimate` and `dtrain plan` make it from a
// configuration. The formulas are those of each task's head_costs.h.
#ifndef DTRAIN_TASKS_SHARED_BERT_HEAD_H_
#define DTRAIN_TASKS_SHARED_BERT_HEAD_H_

#include <functional>
#include <string>

#include "dtrain/models/bert_costs.h"
#include "dtrain/models/bert_encoder.h"
#include "dtrain/models/head_transform.h"
#include "dtrain/tasks/shared/gradient_shapes.h"

namespace dtrain {

struct BertHead {
  std::string row;  // of a batch: "text", "window", "example"
  BertOptions encoder = {};
  ModelParameters parameters = {};                              // of the whole model
  GradientShapes gradients = {};                                // of the head alone
  std::function<ModelCosts(const BertBatch&)> costs = nullptr;  // of the whole model
};

// The gradients of HeadTransform, and of what TokenTransformOf() makes (models/head_transform.h).
// They are added to the end of `gradients`.
void AddHeadTransform(const HeadTransformOptions& transform, GradientShapes& gradients);
void AddTokenTransform(const BertOptions& encoder, GradientShapes& gradients);

// The gradients of the whole model: the head's, then the encoder's.
GradientShapes GradientsOf(const BertHead& head);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_BERT_HEAD_H_
