// clock_offset.cc - questions and answers, each between rank 0 and one other rank.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/clock_offset.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace dtrain {
namespace {

constexpr int kQuestions = 21;

// Moves one number from rank `from` to rank `to`; the other ranks take part with nothing.
double Carry(Communicator& comm, int from, int to, double value) {
  const auto bytes = static_cast<int64_t>(sizeof(value));
  const auto offsets = [&](int peer, bool present) {
    std::vector<int64_t> result(static_cast<size_t>(comm.size()) + 1, 0);
    if (present) std::fill(result.begin() + peer + 1, result.end(), bytes);
    return result;
  };
  double received = 0.0;
  comm.StartAllToAllV(&value, offsets(to, comm.rank() == from), &received,
                      offsets(from, comm.rank() == to))
      ->Wait();
  return received;
}

// Of rank `other` ahead of rank 0; only there it means anything.
double MeasureOffset(Communicator& comm, int other, const std::function<double()>& clock) {
  std::vector<std::pair<double, double>> answers;  // seconds to and fro, offset
  for (int i = 0; i < kQuestions; ++i) {
    const double asked = clock();
    Carry(comm, 0, other, asked);
    const double theirs = Carry(comm, other, 0, clock());
    const double answered = clock();
    answers.emplace_back(answered - asked, theirs - (asked + answered) / 2);
  }
  std::sort(answers.begin(), answers.end());
  answers.resize(kQuestions / 2 + 1);
  std::sort(answers.begin(), answers.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  return answers[answers.size() / 2].second;
}

}  // namespace

std::vector<double> MeasureClockOffsets(Communicator& comm, const std::function<double()>& clock) {
  std::vector<double> offsets(static_cast<size_t>(comm.size()), 0.0);
  for (int other = 1; other < comm.size(); ++other) {
    offsets[static_cast<size_t>(other)] = MeasureOffset(comm, other, clock);
  }
  comm.Broadcast(offsets.data(), static_cast<int64_t>(offsets.size() * sizeof(double)), 0);
  return offsets;
}

}  // namespace dtrain
