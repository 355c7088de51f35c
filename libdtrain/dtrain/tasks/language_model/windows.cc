// windows.cc - cuts texts every max_length tokens and packs windows into batches.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/windows.h"

#include <algorithm>
#include <utility>

#include "dtrain/tasks/language_model/tokens.h"

namespace dtrain {

TextWindows::TextWindows(std::shared_ptr<const TextSet> set, int32_t max_length)
    : TextWindows(std::move(set)) {
  const auto most = static_cast<size_t>(max_length);
  for (size_t text = 0; text < set_->texts.size(); ++text) {
    const size_t tokens = set_->texts[text].size() + 1;
    for (size_t begin = 0; begin < tokens; begin += most) {
      Add({text, begin}, static_cast<int32_t>(std::min(most, tokens - begin)));
    }
  }
}

void TextWindows::Add(const Window& window, int32_t length) {
  const bool has_end = window.begin + static_cast<size_t>(length) > set_->texts[window.text].size();
  windows_.push_back(window);
  lengths_.push_back(length);
  tokens_ += length;
  bytes_ += has_end ? length - 1 : length;
}

std::string_view TextWindows::Text(int64_t window) const {
  const auto at = static_cast<size_t>(window);
  const std::string_view text = set_->texts[windows_[at].text];
  return text.substr(windows_[at].begin, static_cast<size_t>(lengths_[at]));
}

GptBatch TextWindows::Pack(std::span<const uint32_t> windows) const {
  GptBatch batch;
  std::vector<int32_t> offsets = {0};
  for (const uint32_t at : windows) {
    const Window& window = windows_[at];
    const std::string& text = set_->texts[window.text];
    const auto token = [&](size_t i) {
      return i < text.size() ? static_cast<unsigned char>(text[i]) : kEndOfText;
    };
    int32_t previous = window.begin == 0 ? kEndOfText : token(window.begin - 1);
    for (size_t i = 0; i < static_cast<size_t>(lengths_[at]); ++i) {
      batch.input_ids.push_back(previous);
      previous = token(window.begin + i);
      batch.target_ids.push_back(previous);
    }
    offsets.push_back(static_cast<int32_t>(batch.input_ids.size()));
  }
  batch.sequences = Sequences(std::move(offsets));
  return batch;
}

TextWindows TextWindows::TakeLast(int64_t count) {
  TextWindows rest(set_);
  TextWindows last(set_);
  for (int64_t i = 0; i < size(); ++i) {
    const auto at = static_cast<size_t>(i);
    (i < size() - count ? rest : last).Add(windows_[at], lengths_[at]);
  }
  *this = std::move(rest);
  return last;
}

}  // namespace dtrain
