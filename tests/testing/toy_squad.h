// toy_squad.h - questions in SQuAD's form that a small model learns to answer.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_TOY_SQUAD_H_
#define DTRAIN_TESTS_TESTING_TOY_SQUAD_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/base/random.h"

namespace dtrain::testing {

inline const std::vector<std::string>& ToySquadPieces() {
  static const std::vector<std::string> pieces = {
      "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "came", "?",   ".",   "the", "red",
      "old",   "a",     "house", "tree",  "river",  "dog", "cat",  "##s", "cow", "and", "hill"};
  return pieces;
}

// Texts of some words with one animal, with or without "red" before it: that is the answer. Every
// `impossible`-th question has a text without an animal (0: none).
inline std::string ToySquad(int questions, uint64_t seed, int impossible = 0) {
  const std::vector<std::string> words = {"the",  "old",   "a",   "house",
                                          "tree", "river", "and", "hill"};
  const std::vector<std::string> animals = {"dog", "dogs", "cat", "cow"};
  nlohmann::ordered_json paragraphs = nlohmann::ordered_json::array();
  for (int q = 0; q < questions; ++q) {
    RandomStream random({.seed = seed, .site = static_cast<uint32_t>(q)});
    const auto word = [&] {
      return words[random.NextBelow(static_cast<uint32_t>(words.size()))] + " ";
    };
    std::string context;
    for (uint32_t n = 1 + random.NextBelow(9); n > 0; --n) context += word();
    const bool none = impossible > 0 && q % impossible == 0;
    std::string answer = random.NextBelow(2) == 0 ? "red " : "";
    answer += animals[random.NextBelow(static_cast<uint32_t>(animals.size()))];
    const size_t start = context.size();
    if (!none) context += answer + " ";
    for (uint32_t n = random.NextBelow(9); n > 0; --n) context += word();
    context += ".";
    nlohmann::ordered_json question = {{"id", absl::StrCat("q", q)},
                                       {"question", "Who came?"},
                                       {"answers", nlohmann::ordered_json::array()}};
    if (!none) question["answers"].push_back({{"text", answer}, {"answer_start", start}});
    if (impossible > 0) question["is_impossible"] = none;
    paragraphs.push_back({{"context", context}, {"qas", {question}}});
  }
  const nlohmann::ordered_json set = {{"version", impossible > 0 ? "v2.0" : "1.1"},
                                      {"data", {{{"title", "toy"}, {"paragraphs", paragraphs}}}}};
  return set.dump();
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_TOY_SQUAD_H_
