// factor_layout.cc - divides buckets into matrices and the rest, and cuts the shares of places.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/factor_layout.h"

#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"

namespace dtrain::internal {
namespace {

// True if none of the bucket's matrices is compressed. Only such a bucket may be cut into pieces.
bool TravelsWhole(const BucketRange& range, const std::vector<GradientRange>& parameters,
                  int rank) {
  return std::ranges::none_of(parameters, [&](const GradientRange& parameter) {
    return parameter.begin >= range.begin && parameter.end <= range.end &&
           PaysAtRank({parameter.rows, parameter.columns}, rank);
  });
}

}  // namespace

FactorLayout::FactorLayout(const std::vector<BucketRange>& buckets,
                           const std::vector<GradientRange>& parameters, int place,
                           PowerSgdMemory* memory) {
  ShareCutter cutter(memory->grid.places);
  for (const BucketRange& range : buckets) {
    const bool travels_whole = TravelsWhole(range, parameters, memory->rank);
    for (const BucketRange& piece : travels_whole ? PiecesOf(range) : std::vector{range}) {
      AddPiece(piece, parameters, place, cutter, memory);
    }
    ends_.push_back(pieces_.size());
  }
}

void FactorLayout::AddPiece(const BucketRange& range, const std::vector<GradientRange>& parameters,
                            int place, ShareCutter& cutter, PowerSgdMemory* memory) {
  FactorPiece& piece = pieces_.emplace_back();
  piece.range = range;
  std::vector<const GradientRange*> matrices;
  std::vector<SharePiece> parts;
  int64_t done = range.begin;
  for (const GradientRange& parameter : parameters) {
    const MatrixSize size{parameter.rows, parameter.columns};
    if (parameter.begin < range.begin || parameter.end > range.end ||
        !PaysAtRank(size, memory->rank)) {
      continue;
    }
    DT_CHECK_LE(size.elements(), parameter.end - parameter.begin) << parameter.name;
    parts.push_back({done, parameter.begin});
    done = parameter.begin + size.elements();
    parts.push_back({parameter.begin, done, /*is_matrix=*/true});
    matrices.push_back(&parameter);
  }
  parts.push_back({done, range.end});
  const std::vector<int64_t> cuts = cutter.Cut(parts);
  for (const int64_t cut : cuts) piece.share_offsets.push_back(cut - range.begin);

  const auto p = static_cast<size_t>(place);
  const BucketRange own{cuts[p], cuts[p + 1]};
  for (const SharePiece& part : parts) {
    const BucketRange mine{std::max(part.begin, own.begin), std::min(part.end, own.end)};
    if (part.is_matrix || mine.elements() <= 0) continue;
    piece.rest.push_back(mine);
    piece.rest_elements += mine.elements();
  }
  piece.first_matrix = piece.last_matrix = memory->matrices.size();
  for (const GradientRange* parameter : matrices) {
    const auto after = std::ranges::upper_bound(cuts, parameter->begin);
    CompressedMatrix matrix{.name = parameter->name,
                            .begin = parameter->begin,
                            .size = {parameter->rows, parameter->columns},
                            .place = static_cast<int>(after - cuts.begin()) - 1};
    const MemorySize before = SizeAt(*memory, matrix.place);
    matrix.error_begin = before.errors;
    matrix.factor_begin = before.factors;
    memory->matrices.push_back(std::move(matrix));
    if (parameter->begin < own.begin) piece.first_matrix = memory->matrices.size();
    if (parameter->begin < own.end) piece.last_matrix = memory->matrices.size();
  }
  for (size_t i = piece.first_matrix; i < piece.last_matrix; ++i) {
    piece.left_elements += memory->rank * memory->matrices[i].size.rows;
    piece.right_elements += memory->rank * memory->matrices[i].size.columns;
  }
}

int64_t FactorLayout::TravellingElements(int bucket) const {
  int64_t elements = 0;
  for (size_t i = begin_of(bucket); i < end_of(bucket); ++i) {
    elements += pieces_[i].first_elements() + pieces_[i].right_elements;
  }
  return elements;
}

}  // namespace dtrain::internal
