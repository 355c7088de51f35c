// collective_agreement.h - what all ranks are ready to execute, and in which order.
// SPDX-License-Identifier: Apache-2.0
//
// All ranks give it the same votes and the same news, so that its decisions are the same on all of
// them: the table of requests, the cache and the joined ranks.
#ifndef DTRAIN_COMM_INTERNAL_COLLECTIVE_AGREEMENT_H_
#define DTRAIN_COMM_INTERNAL_COLLECTIVE_AGREEMENT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dtrain/comm/internal/negotiation.h"
#include "dtrain/comm/internal/pending_collectives.h"
#include "dtrain/comm/internal/submitted_collective.h"

namespace dtrain::internal {

class CollectiveAgreement {
 public:
  // Rank `rank` of the communicator. job_ranks: Communicator::job_ranks(). `pending` belongs to
  // this rank and outlives the agreement.
  CollectiveAgreement(int rank, std::vector<int> job_ranks, int64_t cache_entries,
                      PendingCollectives* pending)
      : rank_(rank), table_(std::move(job_ranks)), cache_(cache_entries), pending_(pending) {}

  // This rank has submitted a collective.
  void Add(std::unique_ptr<SubmittedCollective> submitted) {
    pending_->Add(std::move(submitted), cache_);
  }

  // This rank's vote. has_news: it has news besides its requests.
  std::vector<uint64_t> Vote(bool has_news) const;
  // The numbers in the cache that all ranks are ready for. votes: the bitwise and of all votes.
  std::vector<int> ReadyNumbers(std::span<const uint64_t> votes) const;
  // Rank `rank` has submitted `request`, or joined.
  void Learn(int rank, CollectiveRequest request);
  // Takes what all ranks have submitted or joined, with this rank's tensors: first the collectives
  // with these numbers in the cache, then those that became complete by requests. If ranks
  // disagree, `agreed.error` says how.
  std::vector<CollectiveWork> TakeReady(const std::vector<int>& numbers);

  bool some_joined() const { return !table_.joined().empty(); }
  bool all_joined() const { return table_.all_joined(); }
  // Once all ranks have joined: this rank's join, with its result except for the outcome. Null if
  // this rank waits for none.
  std::unique_ptr<SubmittedCollective> TakeFinishedJoin();
  std::vector<Negotiation::Stalled> TakeStalled(double seconds) {
    return table_.TakeStalled(seconds);
  }

 private:
  void CheckHasData(const AgreedCollective& agreed) const;
  void Remember(const CollectiveWork& work);

  int rank_;
  Negotiation table_;
  CollectiveCache cache_;
  PendingCollectives* pending_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_COLLECTIVE_AGREEMENT_H_
