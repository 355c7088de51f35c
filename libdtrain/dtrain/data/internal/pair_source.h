// pair_source.h - sentence pairs out of one file that is not lines of text: TMX, JSON lines.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_PAIR_SOURCE_H_
#define DTRAIN_DATA_INTERNAL_PAIR_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain::internal {

struct FoundPair {
  std::string source;
  std::string target;
  int64_t number = 0;  // line of the file at which the pair begins
};

class PairSource {
 public:
  virtual ~PairSource() = default;
  // False at the end. Sides hold no line ends. DataError naming file and line.
  virtual StatusOr<bool> Next(FoundPair& pair) = 0;
  // Entries so far that lack one of the two languages.
  virtual int64_t incomplete() const = 0;
};

// A translation memory (TMX 1.1 to 1.4): the segments of each unit in the two languages. Languages
// match with and without a region: "en" takes "EN-US" where there is no plain "en". The content of
// inline tags that hold another program's codes (bpt, ept, it, ph, ut) is left out.
StatusOr<std::unique_ptr<PairSource>> OpenTmx(const std::string& path,
                                              const std::string& source_language,
                                              const std::string& target_language,
                                              int64_t max_unit_bytes);

// JSON lines: objects with a text for each of the two languages, {"en": "...", "de": "..."}, also
// as the one member {"translation": {...}} of Hugging Face's data sets.
StatusOr<std::unique_ptr<PairSource>> OpenJsonPairs(const std::string& path,
                                                    const std::string& source_language,
                                                    const std::string& target_language,
                                                    int64_t max_line_bytes);

// How well the language of a text fits the one that is wanted: 2 the same, 1 but for a region, 0
// not.
int LanguageMatch(std::string_view found, std::string_view wanted);

// Runs of white space, line ends among them, as one space; none at the ends.
std::string JoinLines(std::string_view text);

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_PAIR_SOURCE_H_
