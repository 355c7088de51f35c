// thread_communicator.h - ranks that are threads of one process, for tests and experiments.
// SPDX-License-Identifier: Apache-2.0
//
//   ThreadWorld world(4);
//   // in thread r, for r = 0..3:
//   const std::unique_ptr<Communicator> comm = world.Connect(r);
//   ... on an exception: world.Fail("rank 2: out of memory");
#ifndef DTRAIN_COMM_THREAD_COMMUNICATOR_H_
#define DTRAIN_COMM_THREAD_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/comm/communicator.h"

namespace dtrain {

namespace internal {
class Mailboxes;
}

class ThreadWorld {
 public:
  explicit ThreadWorld(int size, const CommunicatorOptions& options = {});
  // One host name per rank. Ranks with different names exchange as they would over a network.
  explicit ThreadWorld(std::vector<std::string> hosts, const CommunicatorOptions& options = {});
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  // The communicator of one rank. One thread uses it, and the world must outlive it.
  std::unique_ptr<Communicator> Connect(int rank);
  // Makes every collective of every rank throw CommError with `reason`. Any thread may call it.
  void Fail(std::string_view reason);

 private:
  std::vector<std::string> hosts_;
  CommunicatorOptions options_;
  std::unique_ptr<internal::Mailboxes> mailboxes_;
};

}  // namespace dtrain

#endif  // DTRAIN_COMM_THREAD_COMMUNICATOR_H_
