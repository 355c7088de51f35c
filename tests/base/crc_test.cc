// crc_test.cc - CRC32C against its check value.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/crc.h"

#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("CRC32C of the digits is its check value, plain and masked") {
  CHECK(Crc32c("123456789") == 0xe3069283u);
  CHECK(MaskedCrc32c("123456789") == 0xc78ab0e5u);
  CHECK(Crc32c("") == 0);
}

TEST_CASE("CRC32C of two parts is that of the whole") {
  CHECK(Crc32c("6789", Crc32c("12345")) == Crc32c("123456789"));
}

}  // namespace
}  // namespace dtrain
