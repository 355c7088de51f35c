// catch.h - the one place where Catch2 2 and Catch2 3 differ: tests are written in the words of 2.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_CATCH_H_
#define DTRAIN_TESTS_TESTING_CATCH_H_

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#include <string>

namespace Catch {

using Matchers::EndsWith;
using Matchers::Equals;
using Matchers::Matches;
using Matchers::StartsWith;
using Matchers::VectorContains;

inline auto Contains(const std::string& part) { return Matchers::ContainsSubstring(part); }

}  // namespace Catch

using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#endif  // DTRAIN_TESTS_TESTING_CATCH_H_
