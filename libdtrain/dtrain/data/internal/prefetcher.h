// prefetcher.h - a thread that produces items ahead of their consumer.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_PREFETCHER_H_
#define DTRAIN_DATA_INTERNAL_PREFETCHER_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace dtrain::internal {

// Calls produce() repeatedly on its own thread, at most `depth` items ahead, until this object is
// destroyed.
template <typename Item>
class Prefetcher {
 public:
  Prefetcher(std::function<Item()> produce, int depth)
      : produce_(std::move(produce)),
        depth_(static_cast<size_t>(depth)),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  // Returns the next item, and waits until it is ready. An exception of produce() is rethrown here,
  // after the items produced before it.
  Item Next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || failure_; });
    if (ready_.empty()) std::rethrow_exception(failure_);
    Item item = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return item;
  }

 private:
  void Run(const std::stop_token& stop) {
    try {
      while (!stop.stop_requested()) {
        Item item = produce_();
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [&] { return ready_.size() < depth_; })) return;
        ready_.push_back(std::move(item));
        lock.unlock();
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  const std::function<Item()> produce_;
  const size_t depth_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable_any changed_;
  std::deque<Item> ready_;
  std::exception_ptr failure_;
  std::jthread thread_;  // last, because it uses the other members: it starts after them and ends
                         // before them
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_PREFETCHER_H_
