// run_ranks.h - runs a function on N ranks that are threads of the test.
// SPDX-License-Identifier: Apache-2.0
//
//   const std::vector<float> sums = RunRanks(4, [](Communicator& comm) { return ...; });
//
// Catch's assertions are not thread-safe: the function returns values, the test asserts. An
// exception on one rank makes the others' collectives fail too; the first one is rethrown.
#ifndef DTRAIN_TESTING_RUN_RANKS_H_
#define DTRAIN_TESTING_RUN_RANKS_H_

#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/comm/thread_communicator.h"

namespace dtrain::testing {

// Host names of `count` ranks on one host.
inline std::vector<std::string> OneHost(int count) {
  return std::vector<std::string>(static_cast<size_t>(count), "a");
}

// Calls body(communicator) on one thread per host name; returns the results by rank.
template <typename Body>
auto RunRanksOn(const std::vector<std::string>& hosts, const Body& body,
                const CommunicatorOptions& options = {}) {
  using Result = std::invoke_result_t<Body, Communicator&>;
  using Stored = std::conditional_t<std::is_void_v<Result>, bool, Result>;
  ThreadWorld world(hosts, options);
  std::vector<std::optional<Stored>> results(hosts.size());
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&](size_t rank) {
    try {
      SetNumThreads(1);
      const auto comm = world.Connect(static_cast<int>(rank));
      if constexpr (std::is_void_v<Result>) {
        body(*comm);
        results[rank] = true;
      } else {
        results[rank] = body(*comm);
      }
    } catch (const std::exception& exception) {
      {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
      world.Fail("rank " + std::to_string(rank) + " failed: " + exception.what());
    }
  };
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < hosts.size(); ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
  if constexpr (!std::is_void_v<Result>) {
    std::vector<Result> values;
    for (auto& result : results) values.push_back(std::move(*result));
    return values;
  }
}

template <typename Body>
auto RunRanks(int count, const Body& body, const CommunicatorOptions& options = {}) {
  return RunRanksOn(OneHost(count), body, options);
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTING_RUN_RANKS_H_
