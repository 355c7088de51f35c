// submission_queue_test.cc - names in flight, barriers in turns, and the end, without other ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/submission_queue.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dtrain/base/timer.h"
#include "testing/catch.h"

namespace dtrain::internal {
namespace {

std::shared_ptr<CollectiveResult> Submit(SubmissionQueue& queue, const std::string& name,
                                         CollectiveKind kind = CollectiveKind::kAllReduce) {
  auto submitted = std::make_unique<SubmittedCollective>();
  submitted->request.name = name;
  submitted->request.kind = kind;
  submitted->result = std::make_shared<CollectiveResult>();
  auto result = submitted->result;
  queue.Submit(std::move(submitted));
  return result;
}

std::vector<std::string> TakeNames(SubmissionQueue& queue) {
  std::vector<std::string> names;
  for (const auto& submitted : queue.WaitForWork(0, /*has_work=*/true).submissions) {
    names.push_back(submitted->request.name);
  }
  return names;
}

TEST_CASE("a name in flight is refused until it is free again") {
  SubmissionQueue queue;
  CHECK_FALSE(Submit(queue, "weights")->done);
  const auto second = Submit(queue, "weights");
  REQUIRE(second->done);
  CHECK(second->outcome.code == ExitCode::kUsage);
  CHECK(TakeNames(queue) == std::vector<std::string>{"weights"});
  queue.FreeName("weights");
  CHECK_FALSE(Submit(queue, "weights")->done);
}

TEST_CASE("nameless collectives are counted, so that no two share a name") {
  SubmissionQueue queue;
  Submit(queue, "");
  Submit(queue, "");
  CHECK(TakeNames(queue) ==
        std::vector<std::string>{"nameless all-reduce 0", "nameless all-reduce 1"});
}

TEST_CASE("barriers of several threads take turns") {
  SubmissionQueue queue;
  Submit(queue, "Barrier()", CollectiveKind::kBarrier);
  CHECK_FALSE(Submit(queue, "Barrier()", CollectiveKind::kBarrier)->done);
  CHECK(TakeNames(queue).size() == 1);
  CHECK(TakeNames(queue).empty());
  queue.FreeName("Barrier()");
  CHECK(TakeNames(queue).size() == 1);
}

TEST_CASE("a closed queue gives back what it has and ends later submissions alike") {
  SubmissionQueue queue;
  Submit(queue, "weights");
  Submit(queue, "Barrier()", CollectiveKind::kBarrier);
  Submit(queue, "Barrier()", CollectiveKind::kBarrier);
  CHECK(queue.Close({ExitCode::kCommunication, "rank 1 is gone"}).size() == 3);
  CHECK(queue.Close({ExitCode::kInternal, "a later reason"}).empty());
  const auto late = Submit(queue, "weights");
  REQUIRE(late->done);
  CHECK(late->outcome.message == "rank 1 is gone");
}

TEST_CASE("Abort returns when nothing is in use, and its reason counts until the queue is closed") {
  SubmissionQueue queue;
  CHECK(queue.AbortReason().empty());
  std::thread caller([&] { queue.Abort("out of memory"); });
  CHECK_FALSE(queue.WaitForWork(0, /*has_work=*/false).is_leaving);
  CHECK(queue.AbortReason() == "out of memory");
  queue.Close({ExitCode::kCommunication, "ended"});
  CHECK(queue.AbortReason().empty());
  queue.SetDrained();
  caller.join();
}

TEST_CASE("the pause between cycles ends when a caller waits or leaves") {
  const Timer timer;
  SubmissionQueue hurried;
  hurried.WaitForWork(0, /*has_work=*/true);
  hurried.Hurry();
  hurried.WaitForWork(/*cycle_seconds=*/60, /*has_work=*/true);
  SubmissionQueue left;
  left.WaitForWork(0, /*has_work=*/true);
  left.Leave(/*has_failed=*/true);
  CHECK(left.WaitForWork(/*cycle_seconds=*/60, /*has_work=*/false).is_leaving);
  CHECK(left.AbortReason() == "its work has failed");
  CHECK(timer.Seconds() < 30);
}

}  // namespace
}  // namespace dtrain::internal
