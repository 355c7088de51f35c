// tests.h - the same for tests, which also include Catch2.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_TIDY_TESTS_H_
#define DTRAIN_TOOLS_TIDY_TESTS_H_

#include "tests/testing/catch.h"
#include "tools/tidy/common.h"

#endif  // DTRAIN_TOOLS_TIDY_TESTS_H_
