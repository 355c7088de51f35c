// reach_test.cc - which hosts are reached over TCP, and what is said of the others.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/reach.h"

#include <string>
#include <vector>

#include "dtrain/base/timer.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using internal::DescribeProblems;
using internal::HostReach;
using internal::TryHosts;

TEST_CASE("a name that means this host itself is named, with the file to correct") {
  const std::vector<HostReach> reach = TryHosts({"127.0.1.1"}, "a", {.seconds = 1});
  REQUIRE(reach.size() == 1);
  CHECK_THAT(reach[0].problem, Catch::Contains("means 127.0.1.1") && Catch::Contains("/etc/hosts"));
}

TEST_CASE("a name that nobody knows is named") {
  const std::vector<HostReach> reach = TryHosts({"no-such-host.invalid"}, "a", {.seconds = 1});
  REQUIRE(reach.size() == 1);
  CHECK_THAT(reach[0].problem, Catch::Contains("does not know the name no-such-host.invalid"));
}

TEST_CASE("this host itself is not tried") {
  CHECK(TryHosts({"a", "a.cluster", "localhost"}, "a.cluster", {}).empty());
}

TEST_CASE("hosts that do not answer take the given time together, not each") {
  const Timer timer;
  // TEST-NET-1 and 2: addresses that nobody has (RFC 5737).
  const std::vector<HostReach> reach =
      TryHosts({"192.0.2.1", "198.51.100.1"}, "a", {.seconds = 0.5});
  CHECK(timer.Seconds() < 2);
  CHECK(reach.size() == 2);
}

TEST_CASE("a message lists the problems only") {
  CHECK(DescribeProblems({}).empty());
  CHECK(DescribeProblems({{.host = "b", .problem = "b is down"},
                          {.host = "c"},
                          {.host = "d", .problem = "d is down"}}) == "b is down; d is down");
}

}  // namespace
}  // namespace dtrain
