// step_graphs.h - CUDA graphs: records the kernels of a step once and repeats them.
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

// A recorded graph repeats launches at the addresses they had. Work that uses activations therefore
// has the layout of their arena in its key. When the stream's scratch memory grows, all graphs are
// dropped.
class StepGraphs {
 public:
  // The context outlives this.
  StepGraphs(bool is_on, Context& ctx) : ctx_(ctx), is_on_(is_on) {}
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;
  ~StepGraphs();

  bool is_on() const { return is_on_; }
  // Calls issue(), or repeats the kernels that issue() launched before under the same key and
  // returns the same result again. The first calls with a key do not record, so that plans are made
  // and memory is allocated outside of the recording. The key "" is never recorded. If recording
  // fails, a warning says why, and nothing is recorded from then on.
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
  // False if recording failed.
  bool Record(Entry& entry, const std::function<LossSums()>& issue);
  void MakeRoom();

  Context& ctx_;
  bool is_on_;
  const void* scratch_ = nullptr;  // address of the scratch memory that the graphs use
  std::map<std::string, Entry> entries_;
  int64_t clock_ = 0;
  int64_t num_recorded_ = 0, num_repeated_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_STEP_GRAPHS_H_
