// worker_grid.cc - hosts found by name; cuts at the nearest end of a matrix.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/worker_grid.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "dtrain/base/check.h"

namespace dtrain::internal {
namespace {

// What an element that travels whole costs, in those of a matrix.
constexpr double kWholeCost = 0.1;

double CostOf(const SharePiece& piece) {
  return static_cast<double>(piece.end - piece.begin) * (piece.is_matrix ? 1.0 : kWholeCost);
}

double CostOf(std::span<const SharePiece> pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), 0.0,
                         [](double sum, const auto& piece) { return sum + CostOf(piece); });
}

struct CutPoint {
  int64_t offset = 0;
  double cost = 0.0;  // of what lies before it
};

// Where what lies before comes nearest to `cost` with no matrix cut through.
CutPoint CutNear(std::span<const SharePiece> pieces, double cost) {
  double before = 0.0;
  for (const SharePiece& piece : pieces) {
    const double own = CostOf(piece);
    if (cost < before + own) {
      const double part =
          piece.is_matrix ? std::round((cost - before) / own) : (cost - before) / own;
      const auto elements = std::llround(part * static_cast<double>(piece.end - piece.begin));
      return {piece.begin + elements, before + part * own};
    }
    before += own;
  }
  return {pieces.back().end, before};
}

}  // namespace

WorkerGrid EachRankAlone(int ranks) {
  WorkerGrid grid{.workers = ranks,
                  .worker = std::vector<int>(static_cast<size_t>(ranks)),
                  .place = std::vector<int>(static_cast<size_t>(ranks))};
  std::iota(grid.worker.begin(), grid.worker.end(), 0);
  return grid;
}

WorkerGrid FindWorkers(const Communicator& comm) {
  WorkerGrid grid;
  std::vector<std::string> hosts;
  std::vector<int> ranks;  // by host
  for (int r = 0; r < comm.size(); ++r) {
    const auto host = std::find(hosts.begin(), hosts.end(), comm.topology().host(r));
    grid.worker.push_back(static_cast<int>(host - hosts.begin()));
    if (host == hosts.end()) {
      hosts.push_back(comm.topology().host(r));
      ranks.push_back(0);
    }
    grid.place.push_back(ranks[static_cast<size_t>(grid.worker.back())]++);
  }
  const bool even = std::ranges::all_of(ranks, [&](int count) { return count == ranks[0]; });
  if (even && ranks.size() > 1 && comm.options().algorithm != AllReduceAlgorithm::kFlat) {
    grid.workers = static_cast<int>(hosts.size());
    grid.places = ranks[0];
    return grid;
  }
  return EachRankAlone(comm.size());
}

std::vector<int64_t> ShareCutter::Cut(std::span<const SharePiece> pieces) {
  DT_CHECK(!pieces.empty());
  const double total = CostOf(pieces);
  const auto places = static_cast<double>(load_.size());
  const double level = (std::accumulate(load_.begin(), load_.end(), 0.0) + total) / places;
  const auto lacks = [&](double load) { return std::max(level - load, 0.0); };
  double all_lack = 0.0;
  for (const double load : load_) all_lack += lacks(load);

  std::vector<int64_t> offsets = {pieces.front().begin};
  double wanted = 0.0;  // cost where the place's part should end
  double taken = 0.0;   // where the one before ends
  for (double& load : load_) {
    if (all_lack > 0.0) wanted += lacks(load) * total / all_lack;
    const bool is_last = &load == &load_.back();
    const CutPoint cut = CutNear(pieces, is_last ? total : wanted);
    offsets.push_back(is_last ? pieces.back().end : cut.offset);
    load += cut.cost - taken;
    taken = cut.cost;
  }
  return offsets;
}

}  // namespace dtrain::internal
