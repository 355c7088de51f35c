// golden.h - the golden values of tests/golden/ and models made from them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_GOLDEN_H_
#define DTRAIN_TESTS_TESTING_GOLDEN_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/formats/safetensors.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "testing/test_device.h"
#include "testing/tests_directory.h"
#include "testing/tolerance.h"

namespace dtrain::testing {

// One file of tests/golden/; its README says what the tensors are.
class Golden {
 public:
  explicit Golden(const std::string& name)
      : file_(*SafetensorsFile::Open(GoldenPath(name + ".safetensors"))) {}

  bool Has(std::string_view name) const { return file_.Find(name) != nullptr; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const NamedTensor& tensor : file_.tensors()) names.push_back(tensor.name);
    return names;
  }
  std::vector<float> Floats(std::string_view name) const {
    return Values<float>(name, DType::kFloat32);
  }
  std::vector<int32_t> Ints(std::string_view name) const {
    return Values<int32_t>(name, DType::kInt32);
  }
  std::vector<double> Doubles(std::string_view name) const {
    const std::vector<float> values = Floats(name);
    return {values.begin(), values.end()};
  }
  float Scalar(std::string_view name) const { return Floats(name).at(0); }

  TranslationBatch Batch() const {
    return {.source_ids = Ints("source.ids"),
            .source = Sequences(Ints("source.offsets")),
            .decoder_ids = Ints("decoder_input.ids"),
            .target_ids = Ints("target.ids"),
            .target = Sequences(Ints("target.offsets"))};
  }

 private:
  template <typename T>
  std::vector<T> Values(std::string_view name, DType dtype) const {
    const NamedTensor* const tensor = file_.Find(name);
    DT_CHECK(tensor != nullptr && tensor->dtype == dtype) << name;
    std::vector<T> values(tensor->data.size() / sizeof(T));
    std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
    return values;
  }

  SafetensorsFile file_;
};

inline Seq2SeqOptions MarianTinyOptions() {
  return {.vocab_size = 67,
          .encoder_layers = 2,
          .decoder_layers = 2,
          .hidden_size = 24,
          .ffn_size = 40,
          .num_heads = 3,
          .dropout = 0.0f,
          .max_positions = 32};
}

inline Seq2SeqOptions PegasusTinyOptions() {
  return {.vocab_size = 43,
          .encoder_layers = 1,
          .decoder_layers = 2,
          .hidden_size = 16,
          .ffn_size = 24,
          .num_heads = 2,
          .activation = Activation::kGeluErf,
          .pre_norm = true,
          .dropout = 0.0f,
          .max_positions = 32};
}

// Sets every parameter to the golden tensor of `prefix` + its name.
inline void LoadGoldenWeights(const Golden& golden, ParameterSet& parameters,
                              const std::string& prefix = "") {
  for (const Parameter* parameter : parameters.in_backward_order()) {
    const std::vector<float> values = golden.Floats(prefix + parameter->name());
    Tensor& master = parameters.Find(parameter->name())->master();
    DT_CHECK_EQ(static_cast<int64_t>(values.size()), master.elements());
    SetElements(values, master);
  }
  parameters.RefreshComputeWeights();
}

// Largest difference relative to the golden tensor's largest magnitude; infinite for NaN.
inline double GoldenError(const Golden& golden, std::string_view name, const Tensor& actual) {
  return RelativeError(std::span<const float>(ElementsOf<float>(actual)), golden.Doubles(name));
}
inline double GoldenError(const Golden& golden, std::string_view name,
                          const std::vector<float>& actual) {
  return RelativeError(std::span<const float>(actual), golden.Doubles(name));
}

// Infinite for NaN.
inline double LargestMagnitude(const Tensor& tensor) {
  double largest = 0.0;
  for (const float value : ElementsOf<float>(tensor)) {
    if (std::isnan(value)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(double{value}));
  }
  return largest;
}

// A model of tests/golden/ and the options it was made with.
struct GoldenModel {
  std::string name;
  Seq2SeqOptions options;
};

inline const std::vector<GoldenModel>& GoldenModels() {
  static const std::vector<GoldenModel> models = {{"marian_tiny", MarianTinyOptions()},
                                                  {"pegasus_tiny", PegasusTinyOptions()}};
  return models;
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_GOLDEN_H_
