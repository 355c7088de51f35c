// windows.h - texts cut into windows, the rows that a language model learns from.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_LANGUAGE_MODEL_WINDOWS_H_
#define DTRAIN_TASKS_LANGUAGE_MODEL_WINDOWS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "dtrain/models/gpt.h"
#include "dtrain/tasks/language_model/text_set.h"

namespace dtrain {

// A text of n bytes has n + 1 tokens to predict: its bytes, and the mark behind them. The windows
// of a text divide them, so that each is predicted once. The input at a token is the one before it:
// the mark at the beginning of the text, the last byte of the window before at the beginning of
// others.
class TextWindows {
 public:
  // max_length: most tokens of a window.
  TextWindows(std::shared_ptr<const TextSet> set, int32_t max_length);

  int64_t size() const { return static_cast<int64_t>(windows_.size()); }
  // Tokens of each window.
  std::span<const int32_t> lengths() const { return lengths_; }
  int64_t tokens() const { return tokens_; }
  // Bytes among the tokens.
  int64_t bytes() const { return bytes_; }
  const TextSet& set() const { return *set_; }
  // The bytes of a window.
  std::string_view Text(int64_t window) const;

  // A batch of these windows.
  GptBatch Pack(std::span<const uint32_t> windows) const;

  // Takes the last `count` windows away and returns them.
  TextWindows TakeLast(int64_t count);

 private:
  struct Window {
    size_t text;
    size_t begin;  // its first token, counted in the text
  };
  explicit TextWindows(std::shared_ptr<const TextSet> set) : set_(std::move(set)) {}
  void Add(const Window& window, int32_t length);

  std::shared_ptr<const TextSet> set_;
  std::vector<Window> windows_;
  std::vector<int32_t> lengths_;
  int64_t tokens_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_LANGUAGE_MODEL_WINDOWS_H_
