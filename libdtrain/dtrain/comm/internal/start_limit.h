// start_limit.h - ends a process whose MPI does not start, and says which host is not reached.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_START_LIMIT_H_
#define DTRAIN_COMM_INTERNAL_START_LIMIT_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace dtrain::internal {

// MPI_Init waits for all ranks and knows no limit: one that is stopped or unreachable would hold
// the others for ever. Exists while MPI starts. After `seconds` it ends the process with exit code
// 6. Before that, after 20 s or half of `seconds`, it calls `diagnose` in its own thread, and warns
// if that returns a reason; the reason is also part of the last message.
class StartLimit {
 public:
  StartLimit(double seconds, std::function<std::string()> diagnose);
  StartLimit(const StartLimit&) = delete;
  StartLimit& operator=(const StartLimit&) = delete;
  ~StartLimit();

 private:
  void Watch();
  // Returns true if MPI is up within `seconds`.
  bool IsUpWithin(double seconds);

  const double seconds_;
  const std::function<std::string()> diagnose_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_up_ = false;
  std::thread thread_;
};

// Returns what this rank finds out about a start that hangs: hosts it does not reach and why, and
// which networks of its own it uses. Takes up to 8 s.
std::string DiagnoseStart(std::string_view mpi_version);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_START_LIMIT_H_
