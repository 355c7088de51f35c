// step_graphs.h - work that comes again, recorded once and then repeated: CUDA graphs of a step.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_STEP_GRAPHS_H_
#define DTRAIN_TRAIN_STEP_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "dtrain/device/graph.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/loss_sums.h"

namespace dtrain {

enum class CudaGraphs {
  kAuto,  // on a GPU, with one rank: with several, gradients travel while backward still runs
  kOn,    // on every GPU
  kOff
};

// A recorded graph repeats launches at the addresses they had. So work that takes activations has
// the arena's layout in its key; and when the stream's scratch has grown, all graphs are forgotten.
class StepGraphs {
 public:
  // The context outlives this.
  StepGraphs(bool is_on, Context& ctx) : ctx_(ctx), is_on_(is_on) {}
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;
  ~StepGraphs();

  bool is_on() const { return is_on_; }
  // Does the work of `key`: by issue(), or by repeating what issue() issued before under the same
  // key, whose result is then returned again. "" is always issued. The first times work is issued,
  // so that plans are made and memory is taken outside of the recording.
  // Where recording fails, a warning says why, and from then on all work is issued.
  LossSums Run(const std::string& key, const std::function<LossSums()>& issue);

  int64_t num_recorded() const { return num_recorded_; }
  int64_t num_repeated() const { return num_repeated_; }

 private:
  struct Entry {
    int issued = 0;
    int64_t last_use = 0;
    Graph graph;
    LossSums result;
  };
  // False where it cannot be recorded.
  bool Record(Entry& entry, const std::function<LossSums()>& issue);
  void MakeRoom();

  Context& ctx_;
  bool is_on_;
  const void* scratch_ = nullptr;  // at whose address the graphs were recorded
  std::map<std::string, Entry> entries_;
  int64_t clock_ = 0;
  int64_t num_recorded_ = 0, num_repeated_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_STEP_GRAPHS_H_
