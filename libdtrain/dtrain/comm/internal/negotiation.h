// negotiation.h - the table of requests and the cache: which tensors all ranks have submitted.
// SPDX-License-Identifier: Apache-2.0
//
// Every rank keeps the same table and the same cache, because all see the same news in the same
// order. A tensor that is in the cache needs one bit per cycle. A new tensor travels once to all
// ranks, as a request.
#ifndef DTRAIN_COMM_INTERNAL_NEGOTIATION_H_
#define DTRAIN_COMM_INTERNAL_NEGOTIATION_H_

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/collective_request.h"

namespace dtrain::internal {

// Collectives that were done before. Each has a number, the same on all ranks.
class CollectiveCache {
 public:
  explicit CollectiveCache(int64_t capacity) : capacity_(capacity) {}

  // The number of the collective if this rank did the very same one before, else -1. text: that of
  // its request.
  int Find(const std::string& name, const std::string& text) const;
  const AgreedCollective& Get(int number) const {
    return slots_[static_cast<size_t>(number)].agreed;
  }
  // Marks the collective as used just now.
  void Touch(int number) { slots_[static_cast<size_t>(number)].used = ++clock_; }
  // text: that of this rank's request. Returns the name of the collective that was evicted, or "".
  std::string Insert(const AgreedCollective& agreed, std::string text);
  void Remove(const std::string& name);
  bool Holds(const std::string& name) const { return numbers_.contains(name); }
  // All numbers are below it.
  int size() const { return static_cast<int>(slots_.size()); }

 private:
  struct Slot {
    AgreedCollective agreed;
    std::string text;
    int64_t used = -1;  // -1: free
  };

  int64_t capacity_;
  int64_t clock_ = 0;
  std::vector<Slot> slots_;
  std::unordered_map<std::string, int> numbers_;
};

class Negotiation {
 public:
  // job_ranks: RankTopology::job_ranks(), by which messages name the ranks.
  explicit Negotiation(std::vector<int> job_ranks) : job_ranks_(std::move(job_ranks)) {}

  // Rank `rank` has submitted `request`, or joined.
  void Add(int rank, CollectiveRequest request);
  // Takes the tensors that every rank has submitted, or has joined for, in the order of their first
  // submission.
  std::vector<AgreedCollective> TakeReady();
  // The same for a tensor that all ranks had in their caches.
  AgreedCollective Recheck(const AgreedCollective& cached) const;

  const std::set<int>& joined() const { return joined_; }
  bool all_joined() const { return joined_.size() == job_ranks_.size(); }
  int last_joined() const { return last_joined_; }
  void ClearJoined() { joined_.clear(); }

  struct Stalled {
    std::string name;
    int first_rank = 0;  // the lowest rank that has submitted it
    std::vector<int> missing;
    double seconds = 0;
    bool announced = false;
  };
  // Tensors that only some ranks have submitted, for `seconds` or longer. Marks them as announced.
  std::vector<Stalled> TakeStalled(double seconds);

 private:
  struct Entry {
    std::string name;
    std::map<int, CollectiveRequest> by_rank;
    Timer since;
    bool announced = false;
  };
  bool Complete(const Entry& entry) const;
  void RefuseWhereJoined(AgreedCollective* agreed) const;

  std::vector<int> job_ranks_;
  std::list<Entry> entries_;
  std::unordered_map<std::string, std::list<Entry>::iterator> by_name_;
  std::set<int> joined_;
  int last_joined_ = -1;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NEGOTIATION_H_
