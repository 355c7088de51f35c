// learn_vocabulary.h - what `dtrain tokenizer learn` does with its flags.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_DTRAIN_LEARN_VOCABULARY_H_
#define DTRAIN_TOOLS_DTRAIN_LEARN_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

struct LearnFlags {
  std::string type;
  std::vector<std::string> inputs;
  std::string output;
  int64_t vocab_size = 32000;
  int64_t sentences = 0;
  int64_t seed = 1;
  std::string invalid = "fail";
  int64_t threads = 0;
  bool overwrite = false;
  // Those of some types only.
  std::vector<std::string> special;
  int64_t min_frequency = 2;
  std::optional<double> character_coverage;
  bool split_digits = false;
  bool byte_fallback = false;
  bool lower_case = true;
  std::string accents = "with_capitals";
  std::string tokenizer = "hf";
  int64_t limit_alphabet = 1000;
};

// The values of --type.
const std::vector<std::string>& LearnedTypes();

// Learns a vocabulary and writes its files. Returns what to tell the user.
StatusOr<std::string> LearnVocabulary(const LearnFlags& flags);

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_DTRAIN_LEARN_VOCABULARY_H_
