// gradient_shapes.cc - gradients of layers, last layer first.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/gradient_shapes.h"

#include <algorithm>

namespace dtrain {

void AddVector(int64_t elements, GradientShapes& shapes) {
  shapes.push_back({.columns = elements});
}

void AddTable(int64_t rows, int64_t columns, GradientShapes& shapes) {
  AddVector(rows * columns, shapes);
}

void AddLinear(int64_t outputs, int64_t inputs, GradientShapes& shapes, bool with_bias) {
  shapes.push_back(
      {.rows = outputs, .columns = inputs, .product = static_cast<double>(outputs * inputs)});
  if (with_bias) AddVector(outputs, shapes);
}

void AddNorm(int64_t hidden_size, GradientShapes& shapes, bool with_bias) {
  AddVector(hidden_size, shapes);
  if (with_bias) AddVector(hidden_size, shapes);
}

void AddLayer(const TransformerLayerOptions& layer, GradientShapes& shapes) {
  const int64_t hidden = layer.hidden_size;
  const auto add = [&](int64_t outputs, int64_t inputs, bool with_bias) {
    AddLinear(outputs, inputs, shapes, with_bias);
  };
  AddNorm(hidden, shapes, layer.norm_bias);
  add(hidden, layer.ffn_size, layer.feed_forward_bias);
  add((layer.gated ? 2 : 1) * layer.ffn_size, hidden, layer.feed_forward_bias);
  for (int attention = 0; attention < (layer.decoder ? 2 : 1); ++attention) {
    if (attention > 0 || layer.attention_norm) AddNorm(hidden, shapes, layer.norm_bias);
    add(hidden, hidden, layer.attention_bias);
    if (layer.names.attention.input.empty()) {
      for (int matrix = 0; matrix < 3; ++matrix) add(hidden, hidden, layer.attention_bias);
    } else {
      add(3 * hidden, hidden, layer.attention_bias);
    }
  }
}

void Freeze(size_t first, int64_t adapters, GradientShapes& shapes) {
  const GradientShapes all(shapes.begin() + static_cast<ptrdiff_t>(first), shapes.end());
  shapes.resize(first);
  const auto products =
      std::ranges::count_if(all, [](const GradientShape& shape) { return shape.product > 0.0; });
  if (products == 0) return;
  int64_t done = 0;
  for (const GradientShape& shape : all) {
    if (shape.product == 0.0) continue;
    shapes.push_back({.columns = 0, .product = shape.product});
    ++done;
    AddVector(adapters * done / products - adapters * (done - 1) / products, shapes);
  }
}

}  // namespace dtrain
