// encoder_family.cc - the list of all families.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/encoder_family.h"

#include <algorithm>
#include <array>

namespace dtrain {

std::span<const EncoderFamily* const> EncoderFamilies() {
  static const std::array<const EncoderFamily*, 6> families = {
      &BertFamily(),       &DistilBertFamily(), &ElectraFamily(),
      &ModernBertFamily(), &RobertaFamily(),    &XlmRobertaFamily()};
  return families;
}

const EncoderFamily* FindEncoderFamily(std::string_view name) {
  const auto families = EncoderFamilies();
  const auto found = std::ranges::find(families, name, &EncoderFamily::name);
  return found == families.end() ? nullptr : *found;
}

}  // namespace dtrain
