// thread_communicator.cc - messages as copies in mailboxes, one per receiving rank.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/thread_communicator.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/comm/internal/transport.h"
#include "dtrain/comm/internal/transport_communicator.h"

namespace dtrain {
namespace internal {

// What has been sent to one rank in one context.
class Mailbox {
 public:
  struct Message {
    int sender;
    int tag;
    std::vector<std::byte> bytes;
  };

  void Put(Message message) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
  }
  // Moves everything that has arrived to the end of *inbox.
  void Take(std::list<Message>* inbox) {
    const std::lock_guard lock(mutex_);
    inbox->splice(inbox->end(), messages_);
  }

 private:
  std::mutex mutex_;
  std::list<Message> messages_;
};

class Mailboxes {
 public:
  // Of `rank` in the first world; made by whoever asks first.
  Mailbox* Of(int context, int rank) {
    const std::lock_guard lock(boxes_mutex_);
    return &boxes_[{context, rank}];
  }

  void Fail(std::string_view reason) {
    const std::lock_guard lock(failure_mutex_);
    if (failure_.empty()) failure_ = reason;
    failed_ = true;
  }
  void ThrowIfFailed() {
    if (!failed_) return;
    const std::lock_guard lock(failure_mutex_);
    throw CommError(failure_);
  }

 private:
  std::mutex boxes_mutex_;
  std::map<std::pair<int, int>, Mailbox> boxes_;
  std::atomic<bool> failed_ = false;
  std::mutex failure_mutex_;
  std::string failure_;
};

namespace {

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(Mailboxes* mailboxes, int rank, int size)
      : mailboxes_(mailboxes), rank_(rank), ranks_(static_cast<size_t>(size)) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
    FindBoxes(/*context=*/0);
  }

  Request Send(int peer, int tag, const void* data, size_t bytes) override {
    const auto* const from = static_cast<const std::byte*>(data);
    boxes_[static_cast<size_t>(peer)]->Put(
        {.sender = rank_, .tag = tag, .bytes = {from, from + bytes}});
    bytes_sent_ += static_cast<int64_t>(bytes);
    return kSent;
  }

  Request Receive(int peer, int tag, void* data, size_t bytes) override {
    posted_.push_back({next_, peer, tag, data, bytes});
    return next_++;
  }

  bool Done(Request request) override {
    mailboxes_->ThrowIfFailed();
    if (request == kSent) {
      ++finished_;
      return true;
    }
    boxes_[static_cast<size_t>(rank_)]->Take(&inbox_);
    bool found = false;
    for (auto it = posted_.begin(); it != posted_.end();) {
      // In the order they were posted, so that each message meets the right receive.
      if (!it->arrived) it->arrived = Match(*it);
      const bool finished = it->arrived && it->request == request;
      if (finished) ++finished_;
      found = found || finished;
      it = finished ? posted_.erase(it) : std::next(it);
    }
    return found;
  }

  void Cancel(Request request) override {
    std::erase_if(posted_, [&](const Posted& posted) { return posted.request == request; });
  }

  void Check() override { mailboxes_->ThrowIfFailed(); }

  std::unique_ptr<Transport> Split(std::span<const int> ranks, int context) override {
    return std::unique_ptr<Transport>(new ThreadTransport(*this, ranks, context));
  }

 private:
  static constexpr Request kSent = 0;

  ThreadTransport(const ThreadTransport& from, std::span<const int> ranks, int context)
      : Transport(from.next_context_), mailboxes_(from.mailboxes_) {
    for (const int r : ranks) {
      if (r == from.rank_) rank_ = static_cast<int>(ranks_.size());
      ranks_.push_back(from.ranks_[static_cast<size_t>(r)]);
    }
    FindBoxes(context);
  }

  void FindBoxes(int context) {
    for (const int r : ranks_) boxes_.push_back(mailboxes_->Of(context, r));
  }

  struct Posted {
    Request request;
    int peer;
    int tag;
    void* data;
    size_t bytes;
    bool arrived = false;
  };

  // Copies the first message that fits the receive; false where none has arrived.
  bool Match(const Posted& posted) {
    const auto message = std::find_if(inbox_.begin(), inbox_.end(), [&](const auto& m) {
      return m.sender == posted.peer && m.tag == posted.tag;
    });
    if (message == inbox_.end()) return false;
    if (message->bytes.size() != posted.bytes) {
      throw CommError(absl::StrFormat(
          "rank %d sent %d bytes where %d were expected: the ranks are out of step",
          ranks_[static_cast<size_t>(posted.peer)], message->bytes.size(), posted.bytes));
    }
    std::copy(message->bytes.begin(), message->bytes.end(), static_cast<std::byte*>(posted.data));
    inbox_.erase(message);
    return true;
  }

  Mailboxes* mailboxes_;
  int rank_ = 0;
  std::vector<int> ranks_;  // in the first world
  std::vector<Mailbox*> boxes_;
  Request next_ = 1;
  std::list<Posted> posted_;
  std::list<Mailbox::Message> inbox_;
};

}  // namespace
}  // namespace internal

ThreadWorld::ThreadWorld(int size, const CommunicatorOptions& options)
    : ThreadWorld(std::vector<std::string>(static_cast<size_t>(size), "localhost"), options) {}

ThreadWorld::ThreadWorld(std::vector<std::string> hosts, const CommunicatorOptions& options)
    : hosts_(std::move(hosts)),
      options_(options),
      mailboxes_(std::make_unique<internal::Mailboxes>()) {
  DT_CHECK(!hosts_.empty());
}

ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<Communicator> ThreadWorld::Connect(int rank) {
  return std::make_unique<internal::TransportCommunicator>(
      std::make_unique<internal::ThreadTransport>(mailboxes_.get(), rank,
                                                  static_cast<int>(hosts_.size())),
      rank, hosts_, options_);
}

void ThreadWorld::Fail(std::string_view reason) { mailboxes_->Fail(reason); }

}  // namespace dtrain
