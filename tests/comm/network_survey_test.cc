// network_survey_test.cc - the ranks of a host find its survey, and what it published.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/network_survey.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/socket_address.h"
#include "dtrain/comm/internal/survey_messages.h"
#include "dtrain/comm/internal/survey_sockets.h"
#include "testing/catch.h"

namespace dtrain::internal {
namespace {

GetEnv Table(std::map<std::string, std::string> table) {
  return [table = std::move(table)](const char* name) -> const char* {
    const auto it = table.find(name);
    return it == table.end() ? nullptr : it->second.c_str();
  };
}

TEST_CASE("other ranks of the host learn which interfaces the first one uses") {
  const uint16_t port = SurveyPort("survey test", Table({}));
  const auto survey = NetworkSurvey::Start({.job = "job", .self = "a", .port = port});
  CHECK(survey->Wait().hosts.empty());
  CHECK_FALSE(AskChoice("job", port, 0.2));
  survey->Publish({{.name = "eth0", .addresses = {}, .obstacle = "slower"},
                   {.name = "eth1", .addresses = {}, .obstacle = ""}});
  const auto choice = AskChoice("job", port, 5);
  REQUIRE(choice);
  CHECK(*choice == std::vector<std::string>{"eth1"});
  CHECK_FALSE(AskChoice("another job", port, 0.2));
}

TEST_CASE("a host that does not answer ends the wait") {
  // TEST-NET-1: an address that nobody has (RFC 5737).
  const Timer timer;
  const auto survey = NetworkSurvey::Start({.job = "job",
                                            .self = "a",
                                            .hosts = {"a", "192.0.2.1"},
                                            .port = SurveyPort("silent test", Table({})),
                                            .seconds = 0.3});
  CHECK_FALSE(survey->Wait().is_complete);
  CHECK(timer.Seconds() < 3);
}

TEST_CASE("a host that is not told of the others waits for one that asks, for a while") {
  const uint16_t port = SurveyPort("untold test", Table({}));
  const NetworkSurveyOptions options{
      .job = "job", .self = "b", .has_others = true, .port = port, .seconds = 0.3};
  const Timer timer;
  CHECK_FALSE(NetworkSurvey::Start(options)->Wait().is_complete);
  CHECK(timer.Seconds() > 0.25);

  const auto survey = NetworkSurvey::Start(options);
  SurveySockets asking(0);
  asking.Send(WriteQuestion({.job = "job", .tag = "h0", .hosts = {"b", "192.0.2.1"}}, 0),
              SocketAddress::Of("127.0.0.1", port));
  // It asks the other one in turn, and waits for that.
  const Timer asked;
  CHECK_FALSE(survey->Wait().is_complete);
  CHECK(asked.Seconds() > 0.25);
  CHECK(asked.Seconds() < 3);
}

TEST_CASE("a job whose other names mean this host has nothing to choose") {
  const auto survey = NetworkSurvey::Start({.job = "job",
                                            .self = "a",
                                            .hosts = {"a.cluster", "localhost"},
                                            .port = SurveyPort("self test", Table({}))});
  const NetworkFindings findings = survey->Wait();
  CHECK(findings.is_complete);
  CHECK(findings.hosts.empty());
}

TEST_CASE("all ranks of a job name the same port, and jobs mostly different ones") {
  const uint16_t port = SurveyPort("prterun-a-17@1", Table({}));
  CHECK(port == SurveyPort("prterun-a-17@1", Table({})));
  CHECK(port != SurveyPort("prterun-a-18@1", Table({})));
  CHECK(port >= 20000);
  CHECK(port < 32000);
  CHECK(SurveyPort("any", Table({{"DTRAIN_PORT", "52000"}})) == 52001);
}

TEST_CASE("a job is named by its launcher") {
  CHECK(JobName(Table({{"PMIX_NAMESPACE", "slurm.pmix.7.0"}})) == "slurm.pmix.7.0");
  CHECK(JobName(Table({{"OMPI_MCA_ess_base_jobid", "1585315841"}})) == "1585315841");
  CHECK(JobName(Table({})).empty());
}

}  // namespace
}  // namespace dtrain::internal
