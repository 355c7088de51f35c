// collective_request.cc - requests as bytes, and the comparison with its messages.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/collective_request.h"

#include <cstring>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/check.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/status.h"

namespace dtrain::internal {
namespace {

template <typename T>
void Put(const T& value, std::string* out) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

template <typename T>
T Take(std::string_view* in) {
  DT_CHECK_GE(in->size(), sizeof(T));
  T value;
  std::memcpy(&value, in->data(), sizeof(T));
  in->remove_prefix(sizeof(T));
  return value;
}

void PutText(std::string_view text, std::string* out) {
  Put(static_cast<int64_t>(text.size()), out);
  out->append(text);
}

std::string TakeText(std::string_view* in) {
  const auto length = static_cast<size_t>(Take<int64_t>(in));
  DT_CHECK_GE(in->size(), length);
  std::string text(in->substr(0, length));
  in->remove_prefix(length);
  return text;
}

void PutNumbers(std::span<const int64_t> numbers, std::string* out) {
  Put(static_cast<int64_t>(numbers.size()), out);
  for (const int64_t number : numbers) Put(number, out);
}

std::vector<int64_t> TakeNumbers(std::string_view* in) {
  std::vector<int64_t> numbers(static_cast<size_t>(Take<int64_t>(in)));
  for (int64_t& number : numbers) number = Take<int64_t>(in);
  return numbers;
}

// "float32 [17, 3] on cpu"
std::string DescribeItem(const CollectiveRequest::Item& item) {
  std::ostringstream out;
  out << Name(item.dtype) << ' ' << item.shape;
  if (item.device == DeviceType::kCuda) out << " on a GPU";
  return out.str();
}

std::string DescribeReduction(const CollectiveRequest& request) {
  return absl::StrFormat("%s, prescale %.17g, postscale %.17g", ToAbsl(Name(request.op)),
                         request.prescale, request.postscale);
}

// Whether the extents from `first` on are equal.
bool SameExtents(const Shape& a, const Shape& b, int first) {
  if (a.rank() != b.rank()) return false;
  for (int i = first; i < a.rank(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

bool HasUnevenRows(CollectiveKind kind) {
  return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll;
}

// What differs between two ranks' requests: "has float32 [2]" and "has float32 [3]"; or nothing.
struct Difference {
  std::string what;
  std::string first;
  std::string second;
};

Difference CompareItems(const CollectiveRequest& a, const CollectiveRequest& b) {
  if (a.items.size() != b.items.size()) {
    return {"the numbers of tensors", absl::StrCat(a.items.size(), " tensors"),
            absl::StrCat(b.items.size(), " tensors")};
  }
  const bool uneven = HasUnevenRows(a.kind);
  for (size_t i = 0; i < a.items.size(); ++i) {
    const CollectiveRequest::Item& mine = a.items[i];
    const CollectiveRequest::Item& theirs = b.items[i];
    const std::string place = a.items.size() > 1 ? absl::StrCat(" of tensor ", i) : "";
    const auto differ = [&](const char* what) {
      return Difference{what + place, DescribeItem(mine), DescribeItem(theirs)};
    };
    if (mine.dtype != theirs.dtype) return differ("the types");
    if (mine.device != theirs.device) return differ("the devices");
    if (!SameExtents(mine.shape, theirs.shape, uneven ? 1 : 0)) {
      return differ(uneven ? "the shapes after the first extent" : "the shapes");
    }
  }
  return {};
}

std::string WithArticle(CollectiveKind kind) {
  const std::string_view name = Name(kind);
  return absl::StrCat(name.starts_with('a') ? "an " : "a ", ToAbsl(name));
}

Difference Compare(const CollectiveRequest& a, const CollectiveRequest& b) {
  if (a.kind != b.kind) {
    return {"the collectives", WithArticle(a.kind), WithArticle(b.kind)};
  }
  Difference items = CompareItems(a, b);
  if (!items.what.empty()) return items;
  if (a.op != b.op || a.prescale != b.prescale || a.postscale != b.postscale) {
    return {"the reductions", DescribeReduction(a), DescribeReduction(b)};
  }
  if (a.root != b.root) {
    return {"the roots", absl::StrCat("root ", a.root), absl::StrCat("root ", b.root)};
  }
  return {};
}

}  // namespace

std::string_view Name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all-reduce";
    case CollectiveKind::kAllGather:
      return "all-gather";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::kAllToAll:
      return "all-to-all";
    case CollectiveKind::kBarrier:
      return "barrier";
    case CollectiveKind::kJoin:
      return "join";
    case CollectiveKind::kShutdown:
      return "shutdown";
  }
  return "?";
}

std::string CollectiveRequest::Text() const {
  std::string text;
  PutText(name, &text);
  Put(kind, &text);
  Put(op, &text);
  Put(prescale, &text);
  Put(postscale, &text);
  Put(root, &text);
  Put(static_cast<int64_t>(items.size()), &text);
  for (const Item& item : items) {
    Put(item.dtype, &text);
    Put(item.device, &text);
    PutNumbers(item.shape.dims(), &text);
  }
  PutNumbers(splits, &text);
  PutText(refusal, &text);
  return text;
}

CollectiveRequest CollectiveRequest::Read(std::string_view* text) {
  CollectiveRequest request;
  request.name = TakeText(text);
  request.kind = Take<CollectiveKind>(text);
  request.op = Take<ReduceOp>(text);
  request.prescale = Take<double>(text);
  request.postscale = Take<double>(text);
  request.root = Take<int>(text);
  request.items.resize(static_cast<size_t>(Take<int64_t>(text)));
  for (Item& item : request.items) {
    item.dtype = Take<DType>(text);
    item.device = Take<DeviceType>(text);
    item.shape = Shape(TakeNumbers(text));
  }
  request.splits = TakeNumbers(text);
  request.refusal = TakeText(text);
  return request;
}

AgreedCollective Agree(const std::map<int, CollectiveRequest>& by_rank,
                       std::span<const int> job_ranks) {
  const auto name_of = [&](int rank) { return job_ranks[static_cast<size_t>(rank)]; };
  AgreedCollective agreed;
  const auto& [first_rank, first] = *by_rank.begin();
  agreed.request = first;
  agreed.rows.resize(job_ranks.size());
  for (const auto& [rank, request] : by_rank) {
    if (!request.refusal.empty()) {
      agreed.error = absl::StrFormat("%s \"%s\" on rank %d: %s", ToAbsl(Name(request.kind)),
                                     request.name, name_of(rank), request.refusal);
      agreed.usage_error = true;
      return agreed;
    }
  }
  for (const auto& [rank, request] : by_rank) {
    const Difference difference = Compare(first, request);
    if (!difference.what.empty()) {
      agreed.error =
          absl::StrFormat("%s \"%s\": %s differ between ranks: %s on rank %d, %s on rank %d",
                          ToAbsl(Name(first.kind)), first.name, difference.what, difference.first,
                          name_of(first_rank), difference.second, name_of(rank));
      return agreed;
    }
    std::vector<int64_t>& rows = agreed.rows[static_cast<size_t>(rank)];
    if (request.kind == CollectiveKind::kAllGather) rows = {request.items[0].shape[0]};
    if (request.kind == CollectiveKind::kAllToAll) rows = request.splits;
  }
  return agreed;
}

}  // namespace dtrain::internal
