// synonyms.h - the keys that other training programs call by another name.
// SPDX-License-Identifier: Apache-2.0
//
// Users of Hugging Face, Marian, fairseq or OpenSeq2Seq type the names they know. An error about an
// unknown key or flag answers with the key it is called here.
#ifndef DTRAIN_CONFIG_SYNONYMS_H_
#define DTRAIN_CONFIG_SYNONYMS_H_

#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

// Returns those of `keys` that `name` stands for: "lr" is optimizer.learning_rate, and "fp16" is
// "trainer.precision=fp16", with its value. The section before the last dot, capitals and "-" for
// "_" do not count. Returns an empty list if the name is not known.
std::vector<std::string> KeysCalled(std::string_view name, const std::vector<std::string>& keys);

// Returns for example "; did you mean a or b?", or "" if nothing is close. Looks first for keys
// with the same last part, then for KeysCalled(), then for NearestNames().
std::string DidYouMeanKey(std::string_view name, const std::vector<std::string>& keys);

}  // namespace dtrain

#endif  // DTRAIN_CONFIG_SYNONYMS_H_
