// nccl_test.cc - GPUs' collectives on the emulated NCCL, ranks as threads, and its faults.
// SPDX-License-Identifier: Apache-2.0
#include "testing/host_executor/nccl.h"

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/device_collectives_suite.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/device/buffer.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using host_executor::Nccl;
using internal::NcclResult;
using testing::OneHost;
using testing::RunRanks;
using testing::RunRanksOn;

constexpr Device kGpu = {DeviceType::kCuda};

// What a rank saw of a run in which something goes wrong.
struct Outcome {
  std::string error;  // of a CommError
  std::string why;    // without NCCL
  int64_t aborts = 0;
  int64_t left = 0;  // communicators not destroyed
  double seconds = 0.0;
};

// Runs body(comm, gpus) on each rank after prepare(rank), which sets faults.
std::vector<Outcome> Outcomes(const std::vector<std::string>& hosts,
                              const std::function<void(int)>& prepare,
                              const std::function<void(Communicator&, DeviceCommunicator&)>& body,
                              const CommunicatorOptions& options = {.timeout_seconds = 1.0,
                                                                    .slow_seconds = 0.3}) {
  return RunRanksOn(
      hosts,
      [&](Communicator& comm) {
        prepare(comm.rank());
        Outcome outcome;
        const Timer timer;
        try {
          const auto gpus = MakeDeviceCommunicator(comm, kGpu, &outcome.why);
          if (gpus) body(comm, *gpus);
        } catch (const CommError& error) {
          outcome.error = error.what();
        }
        outcome.seconds = timer.Seconds();
        outcome.aborts = Nccl().aborts;
        outcome.left = Nccl().communicators;
        return outcome;
      },
      options);
}

// Work that every rank can do alike.
void SumOnce(Communicator&, DeviceCommunicator& gpus) {
  const Buffer data(kGpu, 4096);
  gpus.AllReduce(data.data(), 1024, DType::kFloat32, ReduceOp::kSum);
  gpus.Wait();
}

// Collects warnings while it lives.
class Warnings {
 public:
  Warnings() {
    before_ = SetLogSink([this](LogLevel level, std::string_view line) {
      const std::scoped_lock lock(mutex_);
      if (level == LogLevel::kWarning) lines_ += std::string(line) + "\n";
    });
  }
  ~Warnings() { SetLogSink(before_); }
  std::string lines() {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::string lines_;
  LogSink before_;
};

TEST_CASE("collectives on GPUs compute what those of the host compute") {
  for (const int ranks : {1, 2, 3, 4}) {
    INFO(ranks << " ranks");
    const auto errors = RunRanks(ranks, [](Communicator& comm) {
      std::string why;
      const auto gpus = MakeDeviceCommunicator(comm, kGpu, &why);
      if (!gpus) return std::vector<std::string>{why};
      std::vector<std::string> found = DeviceCollectiveErrors(comm, *gpus);
      if (gpus->description() != "NCCL 2.28.9, flat") found.push_back(gpus->description());
      return found;
    });
    for (const auto& found : errors) CHECK(found == std::vector<std::string>());
  }
}

TEST_CASE("so they do on two hosts, whichever way an allreduce takes") {
  struct Way {
    AllReduceAlgorithm algorithm;
    std::string description;
  };
  const std::vector<Way> ways = {{AllReduceAlgorithm::kAuto, "NCCL 2.28.9, hierarchical"},
                                 {AllReduceAlgorithm::kHierarchical, "NCCL 2.28.9, hierarchical"},
                                 {AllReduceAlgorithm::kFlat, "NCCL 2.28.9, flat"},
                                 {AllReduceAlgorithm::kMeasure, ""}};
  for (const Way& way : ways) {
    const auto results = RunRanksOn({"a", "b", "a", "b"},
                                    [](Communicator& comm) {
                                      std::string why;
                                      const auto gpus = MakeDeviceCommunicator(comm, kGpu, &why);
                                      std::vector<std::string> found =
                                          DeviceCollectiveErrors(comm, *gpus);
                                      found.push_back(gpus->description());
                                      return found;
                                    },
                                    {.algorithm = way.algorithm});
    for (const auto& found : results) {
      REQUIRE(found.size() == 1);
      CHECK(found == results[0]);  // measured or not, all ranks take the same way
      if (!way.description.empty()) CHECK(found[0] == way.description);
    }
  }
}

TEST_CASE("an id is made by the first rank of each group that will connect") {
  const auto made = [](const std::vector<std::string>& hosts, AllReduceAlgorithm algorithm) {
    return RunRanksOn(hosts,
                      [](Communicator& comm) {
                        std::string why;
                        static_cast<void>(MakeDeviceCommunicator(comm, kGpu, &why));
                        return Nccl().ids;
                      },
                      {.algorithm = algorithm});
  };
  const std::vector<std::string> two_hosts = {"a", "a", "b", "b"};
  CHECK(made(OneHost(3), AllReduceAlgorithm::kAuto) == std::vector<int64_t>{1, 0, 0});
  CHECK(made(two_hosts, AllReduceAlgorithm::kFlat) == std::vector<int64_t>{1, 0, 0, 0});
  // World, hosts and both pairs across.
  CHECK(made(two_hosts, AllReduceAlgorithm::kAuto) == std::vector<int64_t>{3, 1, 1, 0});
}

TEST_CASE("with NCCL_COMM_ID, where all groups would meet at one address, there is but one") {
  const auto descriptions = RunRanksOn({"a", "a", "b", "b"}, [](Communicator& comm) {
    Nccl().has_comm_id = true;
    std::string why;
    const auto gpus = MakeDeviceCommunicator(comm, kGpu, &why);
    return gpus ? gpus->description() : why;
  });
  for (const std::string& description : descriptions) CHECK(description == "NCCL 2.28.9, flat");
}

TEST_CASE("a hierarchy needs the same number of ranks on each host") {
  const auto descriptions = RunRanksOn({"a", "a", "b"}, [](Communicator& comm) {
    std::string why;
    return MakeDeviceCommunicator(comm, kGpu, &why)->description();
  });
  CHECK(descriptions[0] == "NCCL 2.28.9, flat");
}

TEST_CASE("collectives are issued in as few groups as their order allows") {
  const auto groups = RunRanksOn({"a", "a", "b", "b"}, [](Communicator& comm) {
    std::string why;
    const auto gpus = MakeDeviceCommunicator(comm, kGpu, &why);
    const Buffer data(kGpu, 4 << 20);
    const int64_t before = Nccl().groups;
    gpus->Group([&] {
      for (int64_t i = 0; i < 8; ++i) {
        gpus->AllReduce(data.data() + (i << 19), 1 << 17, DType::kFloat32, ReduceOp::kSum);
      }
    });
    gpus->Wait();
    return Nccl().groups - before;
  });
  for (const int64_t count : groups) CHECK(count == 3);  // in hosts, across, in hosts
}

TEST_CASE("one rank without NCCL: all go without, and all know why") {
  const auto nothing = [](Communicator&, DeviceCommunicator&) {};
  auto outcomes = Outcomes(
      OneHost(3), [](int rank) { Nccl().is_absent = rank == 1; }, nothing);
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.why == "rank 1 (host a): NCCL cannot be loaded");
    CHECK(outcome.left == 0);
  }
  outcomes = Outcomes(
      {"a", "b"}, [](int rank) { Nccl().version = rank == 1 ? 21903 : 22809; }, nothing);
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.why ==
          "rank 0 (host a) has NCCL 2.28.9, rank 1 (host b) has 2.19.3: install the same on all "
          "hosts");
  }
  outcomes = Outcomes(OneHost(2), [](int) {}, nothing, {.nccl = false});
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.why == "rank 0 (host a): DTRAIN_NCCL=off");
  }
}

TEST_CASE("an error while connecting: all go without") {
  const auto outcomes = Outcomes(
      OneHost(3),
      [](int rank) {
        if (rank == 2) Nccl().connecting = NcclResult::kSystemError;
      },
      [](Communicator&, DeviceCommunicator&) {});
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.error.empty());
    // Which rank notices first is not said: the others hear of it from NCCL.
    CHECK_THAT(outcome.why, Catch::Contains("the emulation was told to"));
    CHECK(outcome.why == outcomes[0].why);
    CHECK(outcome.left == 0);
  }
}

TEST_CASE("slow connections are waited for, up to half the time-out") {
  const auto slow = [](double seconds) {
    return [seconds](int rank) {
      if (rank == 0) Nccl().connect_seconds = seconds;
    };
  };
  for (const Outcome& outcome : Outcomes(OneHost(2), slow(0.3), SumOnce)) {
    CHECK(outcome.why.empty());
    CHECK(outcome.error.empty());
    CHECK(outcome.left == 0);
  }
  for (const Outcome& outcome : Outcomes(OneHost(2), slow(1e6), SumOnce)) {
    CHECK_THAT(outcome.why, Catch::StartsWith("rank 0 (host a): NCCL has not connected the GPUs"));
    CHECK(outcome.left == 0);
  }
}

TEST_CASE("a rank that never enters is named, and the collective") {
  Warnings warnings;
  const auto outcomes = Outcomes(
      {"a", "b", "b"}, [](int) {},
      [](Communicator& comm, DeviceCommunicator& gpus) {
        if (comm.rank() != 2) SumOnce(comm, gpus);
      });
  const std::string expected =
      "in AllReduce of 1024 float32 on cuda:0, collective number 2, for rank 2 (host b)";
  for (const int rank : {0, 1}) {
    const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
    CHECK_THAT(outcome.error, Catch::Contains(expected));
    CHECK(outcome.aborts == 1);
    CHECK(outcome.left == 0);
    CHECK(outcome.seconds < 10);
  }
  CHECK_THAT(warnings.lines(), Catch::Contains(expected));
}

TEST_CASE("a rank that fails does not wait for ever where its links' collectives share a stream") {
  // On host a all have entered; behind what rank 3 never joins lies what the host does next.
  const auto outcomes = Outcomes(
      {"a", "a", "b", "b"}, [](int) {},
      [](Communicator& comm, DeviceCommunicator& gpus) {
        if (comm.rank() != 3) SumOnce(comm, gpus);
      },
      {.timeout_seconds = 1.0,
       .slow_seconds = 0.3,
       .small_bytes = 0,
       .algorithm = AllReduceAlgorithm::kHierarchical});
  for (const int rank : {0, 1, 2}) {
    const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
    CHECK_THAT(outcome.error, Catch::Contains("for rank 3 (host b)"));
    CHECK(outcome.aborts == 3);
    CHECK(outcome.left == 0);
    CHECK(outcome.seconds < 10);
  }
}

TEST_CASE("a collective that all have issued and that does not move ends with the time-out") {
  const auto outcomes = Outcomes(
      OneHost(2), [](int rank) { Nccl().stuck = rank == 1 ? 1 : -1; }, SumOnce);
  for (const Outcome& outcome : outcomes) {
    CHECK_THAT(outcome.error, Catch::Contains("for the network between the GPUs"));
    CHECK(outcome.aborts == 1);
  }
}

TEST_CASE("an error that NCCL reports later ends the collectives of all ranks") {
  std::mutex mutex;
  std::vector<std::string> errors(3);
  std::vector<int64_t> aborts(3);
  bool is_over = false;  // nothing can be issued any more
  const Timer timer;
  const auto sum = [&](Communicator& comm) {
    if (comm.rank() == 1) Nccl().failing = 1;
    std::string why;
    const auto gpus = MakeDeviceCommunicator(comm, kGpu, &why);
    comm.Barrier();
    try {
      SumOnce(comm, *gpus);
    } catch (const CommError&) {
      try {
        gpus->Poll();
      } catch (const CommError&) {
        if (comm.rank() == 1) is_over = true;
      }
      throw;
    }
  };
  const auto run = [&](Communicator& comm) {
    try {
      sum(comm);
    } catch (const CommError& error) {
      const std::scoped_lock lock(mutex);
      errors[static_cast<size_t>(comm.rank())] = error.what();
      aborts[static_cast<size_t>(comm.rank())] = Nccl().aborts;
      throw;
    }
  };
  // As a program does, the rank that failed ends the job; the default time-out is never waited for.
  CHECK_THROWS_AS(RunRanks(3, run), CommError);
  CHECK(timer.Seconds() < 60);
  CHECK_THAT(errors[1], Catch::StartsWith("NCCL reports in AllReduce of 1024 float32: remote "));
  for (size_t rank = 0; rank < 3; ++rank) {
    CHECK(!errors[rank].empty());
    CHECK(aborts[rank] == 1);
  }
  CHECK(is_over);
}

TEST_CASE("ranks that issue different collectives are told so, not left waiting") {
  const auto outcomes = Outcomes(
      OneHost(2), [](int) {},
      [](Communicator& comm, DeviceCommunicator& gpus) {
        const Buffer data(kGpu, 4096);
        gpus.AllReduce(data.data(), comm.rank() == 0 ? 1024 : 1000, DType::kFloat32,
                       ReduceOp::kSum);
        gpus.Wait();
      },
      {.timeout_seconds = 100});
  for (const Outcome& outcome : outcomes) {
    CHECK_THAT(outcome.error, Catch::StartsWith("rank 0 (host a) has issued 2 collectives, the "
                                                "last an AllReduce of 1024 float32, but rank 1 "
                                                "(host a) 2, the last an AllReduce of 1000"));
    CHECK(outcome.seconds < 20);
  }
}

}  // namespace
}  // namespace dtrain
