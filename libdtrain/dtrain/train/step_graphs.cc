// step_graphs.cc - which work is recorded, which is repeated, and which graphs are forgotten.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/step_graphs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dtrain/base/log.h"
#include "dtrain/device/cuda/error.h"

namespace dtrain {
namespace {

// Times that work is issued before it is recorded.
constexpr int kIssuedFirst = 2;
// Graphs kept, each a few hundred kilobytes, and keys remembered.
constexpr int64_t kMaxGraphs = 16;
constexpr size_t kMaxKeys = 1024;

}  // namespace

StepGraphs::~StepGraphs() {
  if (num_recorded_ == 0) return;
  try {
    ctx_.stream().Synchronize();  // a graph may still run
  } catch (const CudaError& error) {
    LogWarning(absl::StrCat("the GPU failed: ", error.what()));
  }
}

LossSums StepGraphs::Run(const std::string& key, const std::function<LossSums()>& issue) {
  if (!is_on_ || key.empty()) return issue();
  if (const void* const scratch = ctx_.stream().Scratch(1, "recorded steps"); scratch != scratch_) {
    ctx_.stream().Synchronize();  // a graph may still run
    entries_.clear();
    scratch_ = scratch;
  }
  if (entries_.size() >= kMaxKeys && !entries_.contains(key)) MakeRoom();
  Entry& entry = entries_[key];
  entry.last_use = ++clock_;
  if (!entry.graph && (++entry.issued <= kIssuedFirst || !Record(entry, issue))) return issue();
  entry.graph.Launch(ctx_.stream());
  ++num_repeated_;
  return entry.result;
}

bool StepGraphs::Record(Entry& entry, const std::function<LossSums()>& issue) {
  const auto recorded = std::count_if(entries_.begin(), entries_.end(), [](const auto& named) {
    return static_cast<bool>(named.second.graph);
  });
  if (recorded >= kMaxGraphs) MakeRoom();
  try {
    entry.graph = Graph(ctx_.stream(), [&] { entry.result = issue(); });
    ++num_recorded_;
    return true;
  } catch (const CudaError& error) {
    LogWarning(
        absl::StrCat("a step could not be recorded as a CUDA graph, so steps are issued one "
                     "kernel after the other from here on: ",
                     error.what()));
    is_on_ = false;
    return false;
  }
}

// Forgets what was used least recently: a graph, or a key that has none.
void StepGraphs::MakeRoom() {
  const bool keys_alone = entries_.size() >= kMaxKeys;
  auto oldest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->second.last_use == clock_ || (!keys_alone && !entry->second.graph)) continue;
    if (oldest == entries_.end() || entry->second.last_use < oldest->second.last_use) {
      oldest = entry;
    }
  }
  if (oldest == entries_.end()) return;
  // It may still run. A key alone is forgotten without a wait: there may be one in every step.
  if (oldest->second.graph) ctx_.stream().Synchronize();
  entries_.erase(oldest);
}

}  // namespace dtrain
