// pending_collectives.h - what this rank has submitted and the ranks have not executed yet.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_PENDING_COLLECTIVES_H_
#define DTRAIN_COMM_INTERNAL_PENDING_COLLECTIVES_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/negotiation.h"
#include "dtrain/comm/internal/submitted_collective.h"

namespace dtrain::internal {

// A tensor that the cache knows is a bit in the votes. Any other tensor, and a join, is news: it
// travels once to all ranks, as a request.
class PendingCollectives {
 public:
  // Takes a tensor's collective or a join.
  void Add(std::unique_ptr<SubmittedCollective> submitted, const CollectiveCache& cache);
  // A tensor has left the cache: it becomes news.
  void Forget(const std::string& name);
  // Tensors that have waited for `seconds` become news, so that the table of requests can tell
  // which ranks lack them.
  void AnnounceOlderThan(double seconds);

  bool HasNews() const;
  // The requests that the other ranks have not seen.
  std::string TakeNews();
  // The numbers in the cache of the tensors that need no request.
  std::vector<int> CachedNumbers() const;

  bool Has(const std::string& name) const { return tensors_.contains(name); }
  // Null if this rank has not submitted the name.
  std::unique_ptr<SubmittedCollective> Take(const std::string& name);
  // The join of this rank, or null.
  std::unique_ptr<SubmittedCollective> TakeJoin();
  // Everything. If keep_voted, copies of the tensors that this rank may have voted for stay: other
  // ranks may still execute those, and then need the data of this rank.
  Submissions TakeAll(bool keep_voted);
  void Clear() { tensors_.clear(); }

  bool has_tensors() const { return !tensors_.empty(); }
  bool has_join() const { return join_ != nullptr; }
  // Names for a message: "a", "b" and 3 more.
  std::string Names() const;

 private:
  struct Entry {
    std::unique_ptr<SubmittedCollective> submitted{};
    std::string text{};  // of the request
    int cached = -1;     // number in the cache, or -1: travels as a request
    bool is_sent = false;
    Timer since{};
  };

  std::unordered_map<std::string, Entry> tensors_;
  std::unique_ptr<SubmittedCollective> join_;
  bool is_join_sent_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_PENDING_COLLECTIVES_H_
