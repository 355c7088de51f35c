// communicator.cc - topology and the small-object helpers, written on the virtual collectives.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/communicator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/comm/internal/flight_recorder.h"

namespace dtrain {
namespace {

// Ranks of a group that its name lists.
constexpr size_t kNamedRanks = 8;

}  // namespace

std::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kBitAnd:
      return "bitwise and";
  }
  return "?";
}

Communicator::Communicator(int rank, std::vector<std::string> hosts,
                           const CommunicatorOptions& options)
    : rank_(rank),
      hosts_(std::move(hosts)),
      job_ranks_(hosts_.size()),
      options_(options),
      records_(std::make_shared<internal::FlightRecords>(options.record_directory)) {
  DT_CHECK(rank >= 0 && rank < size());
  std::iota(job_ranks_.begin(), job_ranks_.end(), 0);
  CountLocalRanks();
}

Communicator::Communicator(const Communicator& whole, std::span<const int> ranks)
    : rank_(-1),
      group_name_(whole.group_name_),
      options_(whole.options_),
      pulse_(whole.pulse_),
      records_(whole.records_) {
  if (options_.algorithm == AllReduceAlgorithm::kMeasure) {
    options_.algorithm = AllReduceAlgorithm::kAuto;  // of all ranks alone it is worth the time
  }
  for (const int r : ranks) {
    if (r == whole.rank_) rank_ = size();
    hosts_.push_back(whole.host(r));
    job_ranks_.push_back(whole.job_rank(r));
  }
  DT_CHECK_GE(rank_, 0);
  if (size() < whole.size()) {
    group_name_ = size() == 1 ? "rank" : "ranks";
    for (size_t i = 0; i < std::min(job_ranks_.size(), kNamedRanks); ++i) {
      absl::StrAppend(&group_name_, i == 0 ? " " : ", ", job_ranks_[i]);
    }
    if (job_ranks_.size() > kNamedRanks) {
      absl::StrAppend(&group_name_, " and ", job_ranks_.size() - kNamedRanks, " more");
    }
  }
  CountLocalRanks();
}

void Communicator::CountLocalRanks() {
  for (int r = 0; r < size(); ++r) {
    if (host(r) != host(rank_)) continue;
    if (r < rank_) ++local_rank_;
    ++local_size_;
  }
}

void Communicator::SetRecordDirectory(const std::string& directory) {
  if (options_.record_directory.empty()) records_->SetDirectory(directory);
}

std::string Communicator::RankName(int rank) const {
  return absl::StrFormat("rank %d (host %s)", job_rank(rank), host(rank));
}

std::unique_ptr<Communicator> Communicator::Group(std::span<const int> ranks) {
  bool member = false;
  for (const int r : ranks) {
    DT_CHECK(r >= 0 && r < size()) << "rank " << r << " of " << size();
    member = member || r == rank_;
  }
  return Split(member ? 0 : -1);
}

std::unique_ptr<Communicator> Communicator::NodeGroup() {
  int first = 0;
  while (host(first) != host(rank_)) ++first;
  return Split(first);
}

void Communicator::AllGatherEqual(void* all, int64_t bytes_each) {
  std::vector<int64_t> offsets(static_cast<size_t>(size()) + 1);
  for (size_t r = 0; r < offsets.size(); ++r) offsets[r] = static_cast<int64_t>(r) * bytes_each;
  AllGatherV(all, offsets);
}

std::vector<std::string> Communicator::AllGatherStrings(std::string_view text) {
  const std::vector<int64_t> lengths = AllGather(static_cast<int64_t>(text.size()));
  std::vector<int64_t> offsets{0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  std::string all(static_cast<size_t>(offsets.back()), '\0');
  std::copy(text.begin(), text.end(), all.begin() + offsets[static_cast<size_t>(rank_)]);
  AllGatherV(all.data(), offsets);
  std::vector<std::string> texts;
  for (size_t r = 0; r < lengths.size(); ++r) {
    texts.push_back(all.substr(static_cast<size_t>(offsets[r]), static_cast<size_t>(lengths[r])));
  }
  return texts;
}

std::string Communicator::BroadcastString(std::string_view text, int root) {
  int64_t length = static_cast<int64_t>(text.size());
  Broadcast(&length, sizeof(length), root);
  std::string copy(static_cast<size_t>(length), '\0');
  if (rank_ == root) copy = text;
  Broadcast(copy.data(), length, root);
  return copy;
}

}  // namespace dtrain
