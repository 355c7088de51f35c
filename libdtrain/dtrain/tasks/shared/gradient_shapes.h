// gradient_shapes.h - the gradients of a model in the order in which backward completes them.
// SPDX-License-Identifier: Apache-2.0
//
// `dtrain plan` predicts from them how long gradients travel. Backward's time is taken to be
// proportional to the elements of the matrices it multiplies by; embeddings cost next to nothing.
#ifndef DTRAIN_TASKS_SHARED_GRADIENT_SHAPES_H_
#define DTRAIN_TASKS_SHARED_GRADIENT_SHAPES_H_

#include <cstdint>
#include <vector>

#include "dtrain/nn/transformer_layer.h"

namespace dtrain {

// A gradient, the product that computes it, or both.
struct GradientShape {
  int64_t rows = 1;      // of a matrix, [rows, columns]; 1: a vector or table, which travels whole
  int64_t columns = 0;   // 0: a product whose gradient is complete later
  double product = 0.0;  // elements of the matrix that backward multiplies by
};
using GradientShapes = std::vector<GradientShape>;

// Each adds to the end of `shapes`.
void AddVector(int64_t elements, GradientShapes& shapes);
void AddTable(int64_t rows, int64_t columns, GradientShapes& shapes);
void AddLinear(int64_t outputs, int64_t inputs, GradientShapes& shapes, bool with_bias = true);
void AddNorm(int64_t hidden_size, GradientShapes& shapes, bool with_bias = true);
void AddLayer(const TransformerLayerOptions& layer, GradientShapes& shapes);
// Freezes what is in `shapes` from `first` on: its products compute gradients of inputs alone. Adds
// the adapters' elements, spread evenly.
void Freeze(size_t first, int64_t adapters, GradientShapes& shapes);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_GRADIENT_SHAPES_H_
