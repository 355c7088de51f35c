// survey_messages_test.cc - questions and answers between hosts come back as they were written.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/survey_messages.h"

#include <string>
#include <vector>

#include "testing/catch.h"

namespace dtrain::internal {
namespace {

TEST_CASE("a question comes back from a packet of any size") {
  const SurveyQuestion question{.job = "job@1", .tag = "p12", .hosts = {"a", "b.cluster"}};
  for (const size_t bytes : {0, 1472, 8972}) {
    const std::string text = WriteQuestion(question, bytes);
    CHECK(text.size() == std::max<size_t>(bytes, WriteQuestion(question, 0).size()));
    const std::optional<SurveyQuestion> read = ReadQuestion(text);
    REQUIRE(read);
    CHECK(read->job == "job@1");
    CHECK(read->tag == "p12");
    CHECK(read->hosts == question.hosts);
    CHECK_FALSE(ReadAnswer(text));
  }
}

TEST_CASE("an answer holds interfaces, networks and the verdict, or that there is none yet") {
  SurveyAnswer answer{.job = "j", .tag = "h0", .host = {.id = "12ab", .name = "a"}};
  answer.host.interfaces = {{.name = "eth0",
                             .addresses = {"10.77.0.1", "fd77::1"},
                             .obstacle = "",
                             .megabits_per_second = 1000,
                             .mtu = 9000,
                             .networks = {"10.77.0.0/24", "fd77::/64"}},
                            {.name = "wg0",
                             .addresses = {"10.79.0.1"},
                             .obstacle = kTunnel,
                             .networks = {"10.79.0.0/24"}}};
  std::optional<SurveyAnswer> read = ReadAnswer(WriteAnswer(answer));
  REQUIRE(read);
  CHECK(read->tag == "h0");
  CHECK(read->host.id == "12ab");
  CHECK_FALSE(read->host.verdict);
  REQUIRE(read->host.interfaces.size() == 2);
  CHECK(read->host.interfaces[0].addresses == answer.host.interfaces[0].addresses);
  CHECK(read->host.interfaces[0].networks == answer.host.interfaces[0].networks);
  CHECK(read->host.interfaces[0].megabits_per_second == 1000);
  CHECK(read->host.interfaces[0].mtu == 9000);
  CHECK(read->host.interfaces[0].obstacle.empty());
  CHECK(read->host.interfaces[1].obstacle == kTunnel);
  answer.host.verdict = NetworkVerdict{.good = {"10.77.0.0/24"}, .needs_tunnel = true};
  read = ReadAnswer(WriteAnswer(answer));
  REQUIRE(read);
  REQUIRE(read->host.verdict);
  CHECK(read->host.verdict->good == std::vector<std::string>{"10.77.0.0/24"});
  CHECK(read->host.verdict->needs_tunnel);
}

TEST_CASE("an answer of many interfaces fits into the smallest packet of IPv6") {
  SurveyAnswer answer{.job = "j", .tag = "h0", .host = {.id = "1", .name = "a"}};
  for (int i = 0; i < 100; ++i) {
    answer.host.interfaces.push_back({.name = "eth" + std::to_string(i),
                                      .addresses = {"10.77.0.1"},
                                      .obstacle = "",
                                      .networks = {"10.77.0.0/24"}});
  }
  const std::string text = WriteAnswer(answer);
  CHECK(text.size() <= 1280 - 48);
  const std::optional<SurveyAnswer> read = ReadAnswer(text);
  REQUIRE(read);
  CHECK(read->host.interfaces.size() > 10);
}

TEST_CASE("other programs' datagrams are no messages") {
  for (const std::string text :
       {"", "\n", "hello", "dtrain networks?", "dtrain networks?\tjob", "dtrain networks:\tj\th0",
        "dtrain networks:\tj\th0\t1\ta\tdone\t\t\neth0\t\tfast\t1500\n",
        "dtrain networks:\tj\th0\t1\ta\tdone\t\t\neth0\t\t1000\t1500\t10.77.0.1\n"}) {
    CHECK_FALSE(ReadQuestion(text));
    CHECK_FALSE(ReadAnswer(text));
  }
}

}  // namespace
}  // namespace dtrain::internal
