// abi_check.h - whether a function declared here takes what another header's declaration takes.
// SPDX-License-Identifier: Apache-2.0
//
// For libraries that are opened at run time, whose functions the library declares itself.
#ifndef DTRAIN_COMM_INTERNAL_ABI_CHECK_H_
#define DTRAIN_COMM_INTERNAL_ABI_CHECK_H_

#include <type_traits>

namespace dtrain::internal {

// Each parameter is passed as theirs: as many bytes, and a pointer where theirs is one.
template <typename OurResult, typename... Ours, typename TheirResult, typename... Theirs>
constexpr bool TakesTheSame(OurResult (*)(Ours...), TheirResult (*)(Theirs...)) {
  return sizeof(OurResult) == sizeof(TheirResult) &&
         ((sizeof(Ours) == sizeof(Theirs) &&
           std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>)&&...);
}

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_ABI_CHECK_H_
