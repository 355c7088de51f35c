// sequences.h - describes how a packed batch is divided into sequences.
// SPDX-License-Identifier: Apache-2.0
//
//   const Sequences batch({0, 5, 8});               // 2 sequences, of 5 and of 3 tokens
//   const Tensor x = ctx.Empty({batch.tokens(), 64});  // without padding
#ifndef DTRAIN_DEVICE_SEQUENCES_H_
#define DTRAIN_DEVICE_SEQUENCES_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// A batch is packed: its activations are [tokens, hidden] without padding rows, and `offsets` says
// where each sequence begins. Sequences may be empty only if an op allows it.
class Sequences {
 public:
  Sequences() : Sequences(std::vector<int32_t>{0}) {}
  // offsets: [sequences + 1]. The first is 0 and they never decrease.
  explicit Sequences(std::vector<int32_t> offsets) : offsets_(std::move(offsets)) {
    DT_CHECK(!offsets_.empty() && offsets_[0] == 0) << "the offsets must start with 0";
    for (size_t i = 1; i < offsets_.size(); ++i) {
      DT_CHECK_LE(offsets_[i - 1], offsets_[i]);
      max_length_ = std::max(max_length_, offsets_[i] - offsets_[i - 1]);
    }
  }

  int64_t count() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t tokens() const { return offsets_.back(); }
  int32_t max_length() const { return max_length_; }
  // The first token of sequence i, the one after its last, and the number between.
  int32_t begin(int64_t i) const { return offsets_[static_cast<size_t>(i)]; }
  int32_t end(int64_t i) const { return offsets_[static_cast<size_t>(i) + 1]; }
  int32_t length(int64_t i) const { return end(i) - begin(i); }
  const std::vector<int32_t>& offsets() const { return offsets_; }
  // The offsets on the batch's device, [count() + 1], int32, or absent. Without them, each op on a
  // GPU copies the offsets itself.
  const Tensor& device_offsets() const { return device_offsets_; }
  void set_device_offsets(Tensor offsets) {
    DT_CHECK_EQ(offsets.elements(), count() + 1);
    device_offsets_ = std::move(offsets);
  }

  // For sequences that are part of a larger batch: the number that each one's first token has in
  // the larger batch, [count()]. Empty otherwise. Dropout uses these numbers (ops/dropout.h), so
  // its result does not depend on how the larger batch is split.
  const std::vector<int32_t>& first_numbers() const { return first_numbers_; }
  void set_first_numbers(std::vector<int32_t> numbers) {
    DT_CHECK_EQ(static_cast<int64_t>(numbers.size()), count());
    first_numbers_ = std::move(numbers);
  }
  // The numbers of all tokens in the larger batch, [tokens()], or empty.
  std::vector<int32_t> NumberRows() const {
    std::vector<int32_t> numbers;
    if (first_numbers_.empty()) return numbers;
    for (int64_t s = 0; s < count(); ++s) {
      for (int32_t t = 0; t < length(s); ++t) {
        numbers.push_back(first_numbers_[static_cast<size_t>(s)] + t);
      }
    }
    return numbers;
  }
  // NumberRows() on the batch's device, [tokens()], int32, or absent. Dropout uses them.
  const Tensor& row_numbers() const { return row_numbers_; }
  void set_row_numbers(Tensor numbers) {
    DT_CHECK_EQ(numbers.elements(), tokens());
    row_numbers_ = std::move(numbers);
  }

 private:
  std::vector<int32_t> offsets_;
  int32_t max_length_ = 0;
  Tensor device_offsets_;
  std::vector<int32_t> first_numbers_;
  Tensor row_numbers_;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_SEQUENCES_H_
