// nearest_name.h - suggests the candidates closest to a mistyped name.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_CONFIG_NEAREST_NAME_H_
#define DTRAIN_CONFIG_NEAREST_NAME_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

// The part of a dotted name behind its last dot: "hidden_size" for "model.hidden_size".
std::string_view LastPart(std::string_view name);

// Number of insertions, deletions, substitutions and swaps of neighbours between two texts (optimal
// string alignment).
size_t EditDistance(std::string_view a, std::string_view b);

// At most `limit` candidates that are close to `name`, closest first, in a stable order. A
// candidate with dots is also compared by its last part: "hidden_size" is close to
// "model.hidden_size".
std::vector<std::string> NearestNames(std::string_view name,
                                      const std::vector<std::string>& candidates, size_t limit = 3);

// Returns for example "; did you mean a, b or c?", or "" if nothing is close. `prefix` is put
// before each name.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates,
                       std::string_view prefix = "");
// The same text for names that were found in another way.
std::string DidYouMeanOneOf(const std::vector<std::string>& names, std::string_view prefix = "");

}  // namespace dtrain

#endif  // DTRAIN_CONFIG_NEAREST_NAME_H_
