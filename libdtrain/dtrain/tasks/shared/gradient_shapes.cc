// gradient_shapes.cc - gradients of layers, last layer first.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/gradient_shapes.h"

namespace dtrain {

void AddVector(int64_t elements, GradientShapes& shapes) {
  shapes.push_back({.columns = elements});
}

void AddTable(int64_t rows, int64_t columns, GradientShapes& shapes) {
  AddVector(rows * columns, shapes);
}

void AddLinear(int64_t outputs, int64_t inputs, GradientShapes& shapes) {
  shapes.push_back(
      {.rows = outputs, .columns = inputs, .product = static_cast<double>(outputs * inputs)});
  AddVector(outputs, shapes);
}

void AddNorm(int64_t hidden_size, GradientShapes& shapes) {
  AddVector(hidden_size, shapes);
  AddVector(hidden_size, shapes);
}

void AddLayer(int64_t hidden_size, int64_t ffn_size, bool decoder, GradientShapes& shapes) {
  AddNorm(hidden_size, shapes);
  AddLinear(hidden_size, ffn_size, shapes);
  AddLinear(ffn_size, hidden_size, shapes);
  for (int attention = 0; attention < (decoder ? 2 : 1); ++attention) {
    AddNorm(hidden_size, shapes);
    for (int matrix = 0; matrix < 4; ++matrix) AddLinear(hidden_size, hidden_size, shapes);
  }
}

}  // namespace dtrain
