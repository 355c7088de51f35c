// request_inbox_test.cc - signals on several ranks become one request, which waits if it must.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/request_inbox.h"

#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("reading the flags clears those for a checkpoint and a timeline, not the stop") {
  StopFlags flags;
  RequestInbox inbox;
  CHECK(inbox.Read() == Requests{});
  CHECK_FALSE(inbox.is_stop_requested());
  inbox.set_flags(&flags);
  flags.stop = flags.checkpoint = flags.timeline = true;
  CHECK(inbox.Read() == Requests{.checkpoint = true, .stop = true, .timeline = true});
  CHECK(inbox.Read() == Requests{.stop = true});
  CHECK(inbox.is_stop_requested());
}

TEST_CASE("a request heard in two updates in a row is one request, but a stop stays one") {
  RequestInbox inbox;
  const Requests all = {.checkpoint = true, .stop = true, .timeline = true};
  CHECK(inbox.DropRepeated(all) == all);
  CHECK(inbox.DropRepeated(all) == Requests{.stop = true});
  CHECK(inbox.DropRepeated({}) == Requests{});
  CHECK(inbox.DropRepeated(all) == all);
}

TEST_CASE("a checkpoint and a stop wait until the trainer may act") {
  RequestInbox inbox;
  const Requests all = {.checkpoint = true, .stop = true, .timeline = true};
  CHECK(inbox.Take(all, 10.0, /*may_act=*/false) == Requests{.timeline = true});
  CHECK(inbox.Take({}, 11.0, /*may_act=*/false) == Requests{});
  CHECK(inbox.Take({}, 12.0, /*may_act=*/true) == Requests{.checkpoint = true, .stop = true});
  CHECK(inbox.Take({}, 20.0, /*may_act=*/true) == Requests{});
}

TEST_CASE("requests of one kind within a second count as one") {
  RequestInbox inbox;
  const Requests both = {.checkpoint = true, .timeline = true};
  CHECK(inbox.Take(both, 0.5, /*may_act=*/true) == both);
  CHECK(inbox.Take(both, 1.5, /*may_act=*/true) == Requests{});
  CHECK(inbox.Take(both, 1.75, /*may_act=*/true) == both);
}

}  // namespace
}  // namespace dtrain
