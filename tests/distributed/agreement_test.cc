// agreement_test.cc - ranks that agree pass; ranks that do not all hear who says what.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/agreement.h"

#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::RunRanksOn;

// The message every rank returned; they must be equal. "" where all agreed.
template <typename MakeSections>
std::string MessageFrom(const std::vector<std::string>& hosts, const MakeSections& make) {
  const auto statuses = RunRanksOn(
      hosts, [&](Communicator& comm) { return CheckRanksAgree(make(comm.rank()), comm); });
  for (const Status& status : statuses) {
    CHECK(status == statuses[0]);
    CHECK(status.code() == (status.ok() ? ExitCode::kDone : ExitCode::kUsage));
  }
  return std::string(statuses[0].message());
}

TEST_CASE("ranks that agree pass, a single rank always does") {
  const auto same = [](int) {
    return std::vector<AgreementSection>{{"version", "1"}, {"configuration", "a: 1\nb: 2\n"}};
  };
  CHECK(MessageFrom({"a", "a", "b"}, same) == "");
  SelfCommunicator self;
  CHECK(CheckRanksAgree(same(0), self).ok());
}

TEST_CASE("a different line is shown with its ranks and hosts") {
  const std::string message = MessageFrom({"a", "a", "b", "b"}, [](int rank) {
    return std::vector<AgreementSection>{
        {"version", "1"},
        {"configuration", std::string("layers: 6\nlearning_rate: ") +
                              (rank == 2 ? "0.002" : "0.001") + "\nseed: 1\n"},
        {"data", rank == 3 ? "x" : "y"}};
  });
  CHECK(message ==
        "the ranks disagree on configuration, line 2\n"
        "  ranks 0, 1, 3 (hosts a, b): learning_rate: 0.001\n"
        "  rank 2 (host b): learning_rate: 0.002\n"
        "Start every rank with the same program, flags and files");
}

TEST_CASE("a text that ends early and a missing section are told") {
  CHECK_THAT(MessageFrom({"a", "a"},
                         [](int rank) {
                           return std::vector<AgreementSection>{
                               {"parameters", rank == 0 ? "w [2]\nb [2]" : "w [2]"}};
                         }),
             Catch::Contains("parameters, line 2\n  rank 0 (host a): b [2]\n  rank 1 (host a): "
                             "(end)"));
  CHECK_THAT(MessageFrom({"a", "a"},
                         [](int rank) {
                           std::vector<AgreementSection> sections{{"version", "1"}};
                           if (rank == 1) sections.push_back({"extra", "1"});
                           return sections;
                         }),
             Catch::Contains("extra\n  rank 0 (host a): no such section\n  rank 1 (host a): "
                             "present"));
}

TEST_CASE("of a long line the part that differs is shown") {
  const std::string message = MessageFrom({"a", "a"}, [](int rank) {
    return std::vector<AgreementSection>{
        {"data", std::string(5000, 'x') + (rank == 0 ? "left" : "right") + std::string(500, 'y')}};
  });
  CHECK_THAT(message, Catch::Contains("xleft") && Catch::Contains("xright"));
  CHECK(message.size() < 800);
}

TEST_CASE("texts that differ in nothing but their end are refused") {
  CHECK_THAT(MessageFrom({"a", "a"},
                         [](int rank) {
                           return std::vector<AgreementSection>{{"data", rank == 0 ? "x" : "x\n"}};
                         }),
             Catch::Contains("different ends"));
}

TEST_CASE("ranks of a group that disagree are named as the job counts them") {
  const auto statuses = RunRanksOn({"a", "a", "b", "b"}, [](Communicator& comm) {
    const auto group = comm.Split(comm.rank() / 2);
    return CheckRanksAgree({{"data", group->is_root() ? "x" : "y"}}, *group);
  });
  CHECK_THAT(std::string(statuses[2].message()),
             Catch::Contains("rank 2 (host b): x") && Catch::Contains("rank 3 (host b): y"));
}

}  // namespace
}  // namespace dtrain
