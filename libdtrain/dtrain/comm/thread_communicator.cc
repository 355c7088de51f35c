// thread_communicator.cc - messages as copies in mailboxes, one per receiving rank.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/thread_communicator.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/comm/internal/transport.h"
#include "dtrain/comm/internal/transport_communicator.h"

namespace dtrain {
namespace internal {

class Mailboxes {
 public:
  struct Message {
    int sender;
    int tag;
    std::vector<std::byte> bytes;
  };

  explicit Mailboxes(size_t size) : boxes_(size) {}

  void Put(int receiver, Message message) {
    Box& box = boxes_[static_cast<size_t>(receiver)];
    const std::lock_guard lock(box.mutex);
    box.messages.push_back(std::move(message));
  }

  // Moves everything that has arrived to the end of *inbox.
  void Take(int receiver, std::list<Message>* inbox) {
    Box& box = boxes_[static_cast<size_t>(receiver)];
    const std::lock_guard lock(box.mutex);
    inbox->splice(inbox->end(), box.messages);
  }

  void Fail(std::string_view reason) {
    const std::lock_guard lock(failure_mutex_);
    if (failure_.empty()) failure_ = reason;
  }
  void ThrowIfFailed() {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_.empty()) throw CommError(failure_);
  }

 private:
  struct Box {
    std::mutex mutex;
    std::list<Message> messages;
  };

  std::vector<Box> boxes_;
  std::mutex failure_mutex_;
  std::string failure_;
};

namespace {

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(Mailboxes* mailboxes, int rank) : mailboxes_(mailboxes), rank_(rank) {}

  Request Send(int peer, int tag, const void* data, size_t bytes) override {
    const auto* const from = static_cast<const std::byte*>(data);
    mailboxes_->Put(peer, {.sender = rank_, .tag = tag, .bytes = {from, from + bytes}});
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
    mailboxes_->Take(rank_, &inbox_);
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

 private:
  static constexpr Request kSent = 0;

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
      throw CommError(
          absl::StrFormat("rank %d sent %d bytes where %d were expected: the ranks are out of step",
                          posted.peer, message->bytes.size(), posted.bytes));
    }
    std::memcpy(posted.data, message->bytes.data(), posted.bytes);
    inbox_.erase(message);
    return true;
  }

  Mailboxes* mailboxes_;
  int rank_;
  Request next_ = 1;
  std::list<Posted> posted_;
  std::list<Mailboxes::Message> inbox_;
};

}  // namespace
}  // namespace internal

ThreadWorld::ThreadWorld(int size, const CommunicatorOptions& options)
    : ThreadWorld(std::vector<std::string>(static_cast<size_t>(size), "localhost"), options) {}

ThreadWorld::ThreadWorld(std::vector<std::string> hosts, const CommunicatorOptions& options)
    : hosts_(std::move(hosts)),
      options_(options),
      mailboxes_(std::make_unique<internal::Mailboxes>(hosts_.size())) {
  DT_CHECK(!hosts_.empty());
}

ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<Communicator> ThreadWorld::Connect(int rank) {
  return std::make_unique<internal::TransportCommunicator>(
      std::make_unique<internal::ThreadTransport>(mailboxes_.get(), rank), rank, hosts_, options_);
}

void ThreadWorld::Fail(std::string_view reason) { mailboxes_->Fail(reason); }

}  // namespace dtrain
