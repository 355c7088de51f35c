// queue_shutdown_test.cc - the end of a queue, as the ranks tell it each other.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/queue_shutdown.h"

#include <string>
#include <string_view>

#include "testing/catch.h"

namespace dtrain::internal {
namespace {

CollectiveRequest RequestOf(const std::string& news) {
  std::string_view text = news;
  return CollectiveRequest::Read(&text);
}

TEST_CASE("the end is reported once, and ends the queue only when the news are back") {
  QueueShutdown shutdown;
  CHECK(shutdown.TakeNews().empty());
  shutdown.Leave("rank 1 has ended");
  CHECK(shutdown.HasNews());
  const std::string news = shutdown.TakeNews();
  CHECK(shutdown.TakeNews().empty());
  CHECK_FALSE(shutdown.HasNews());
  CHECK_FALSE(shutdown.has_ended());
  shutdown.Learn(RequestOf(news));
  CHECK(shutdown.has_ended());
  CHECK_FALSE(shutdown.is_broken());
  CHECK(shutdown.reason() == "rank 1 has ended");
}

TEST_CASE("a rank that gave up breaks the others' collectives, also if it wanted to leave before") {
  QueueShutdown shutdown;
  shutdown.Leave("rank 1 has ended");
  shutdown.GiveUp("rank 1 is out of memory");
  shutdown.Leave("rank 1 has ended");
  QueueShutdown other;
  other.Learn(RequestOf(shutdown.TakeNews()));
  CHECK(other.is_broken());
  CHECK(other.reason() == "rank 1 is out of memory");
}

TEST_CASE("the first rank's reason holds on all ranks") {
  QueueShutdown first;
  first.Leave("rank 0 has ended");
  QueueShutdown second;
  second.GiveUp("rank 1 has failed");
  const std::string second_news = second.TakeNews();
  second.Learn(RequestOf(first.TakeNews()));
  second.Learn(RequestOf(second_news));
  CHECK(second.reason() == "rank 0 has ended");
  CHECK(second.is_broken());
}

}  // namespace
}  // namespace dtrain::internal
