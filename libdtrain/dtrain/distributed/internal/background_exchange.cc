// background_exchange.cc - a lock around another exchange, and a thread that polls it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/background_exchange.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "dtrain/base/thread_pool.h"

namespace dtrain::internal {
namespace {

// Between polls: while this rank sends, and while it has long sent nothing, as ranks do that wait
// for others.
constexpr std::chrono::microseconds kShortPause(100);
constexpr std::chrono::microseconds kLongPause(1600);

class BackgroundExchange final : public BucketExchange {
 public:
  explicit BackgroundExchange(std::unique_ptr<BucketExchange> exchange)
      : exchange_(std::move(exchange)), thread_([this] { Run(); }) {}
  ~BackgroundExchange() override {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  BackgroundExchange(const BackgroundExchange&) = delete;
  BackgroundExchange& operator=(const BackgroundExchange&) = delete;

  // Without the lock: the other thread goes on moving what was started.
  void Prepare(int bucket) override { exchange_->Prepare(bucket); }
  void Start(int bucket) override {
    {
      const std::lock_guard lock(mutex_);
      RethrowError();
      exchange_->Start(bucket);
      is_moving_ = true;
    }
    changed_.notify_one();
  }
  void Poll() override {}  // the thread does
  void Pause() override {
    const std::lock_guard lock(mutex_);
    is_moving_ = false;
  }
  bool HasArrived(int bucket) override {
    const std::lock_guard lock(mutex_);
    return exchange_->HasArrived(bucket);
  }
  void Land(int bucket) override {
    const std::lock_guard lock(mutex_);
    is_moving_ = false;
    RethrowError();
    exchange_->Land(bucket);
  }
  void Settle() override {
    const std::lock_guard lock(mutex_);
    is_moving_ = false;
    exchange_->Settle();
  }
  int64_t BytesOf(int bucket) const override { return exchange_->BytesOf(bucket); }

 private:
  // On the caller's thread, what the other one met.
  void RethrowError() const {
    if (error_) std::rethrow_exception(error_);
  }
  void Run() {
    // Products have the bits of the caller's, whichever thread computes them.
    SetNumThreads(num_threads_);
    std::unique_lock lock(mutex_);
    auto pause = kShortPause;
    int64_t sent = 0;  // when last seen, so that a bucket that was just started counts
    for (;;) {
      changed_.wait(lock, [this] { return is_moving_ || is_over_; });
      if (is_over_) return;
      try {
        exchange_->Poll();
      } catch (...) {
        error_ = std::current_exception();
        is_moving_ = false;
      }
      const bool has_sent = exchange_->BytesSent() != sent;
      sent = exchange_->BytesSent();
      pause = has_sent ? kShortPause : std::min(2 * pause, kLongPause);
      lock.unlock();
      std::this_thread::sleep_for(pause);
      lock.lock();
    }
  }

  std::unique_ptr<BucketExchange> exchange_;
  const int num_threads_ = NumThreads();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
  bool is_moving_ = false;  // the thread polls
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<BucketExchange> MoveInBackground(std::unique_ptr<BucketExchange> exchange) {
  return std::make_unique<BackgroundExchange>(std::move(exchange));
}

}  // namespace dtrain::internal
