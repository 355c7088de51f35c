// exchange_bench.cc - how much of the gradients' exchange the backward pass hides.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 4 -H a:2,b:2 exchange_bench --mib=40 --backward_ms=400 --wire=bf16
// Steps with overlap (each gradient is reported when it is ready), without (all at the end) and
// with backward alone in turns, through the trainer's GradientReducer. The backward pass is a pause
// between gradients, or with --spin work that wants a core: as much of it as takes --backward_ms
// where all ranks do nothing else, and longer where the exchange takes their cores. Prints one line
// of JSON: medians of the slowest rank; `hidden` is the share of min(backward, exchange) by which
// overlap shortens the step.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "dtrain/base/timer.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/launch/run_on_ranks.h"

namespace dtrain {
namespace {

constexpr int64_t kColumns = 512;  // of each gradient, for PowerSGD

struct Options {
  int64_t mib = 40;
  int64_t parameters = 64;
  int64_t backward_ms = 400;
  double bucket_mib = 25;
  std::string wire = "fp32";
  int64_t power_sgd_rank = 0;
  int64_t steps = 7;
  bool spin = false;
};

// That this thread has had a core.
double CoreSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// With `spin` seconds of a core, however long that takes.
void Compute(double seconds, bool spin) {
  if (!spin) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return;
  }
  const double end = CoreSeconds() + seconds;
  while (CoreSeconds() < end) {
  }
}

enum class Exchange { kNone, kOverlapped, kAtTheEnd };

// Seconds of a step, of the slowest rank; `pause` is Compute()'s of each gradient.
double Step(const Options& options, double pause, Exchange exchange, GradientReducer& reducer,
            Communicator& comm) {
  const int count = static_cast<int>(options.parameters);
  comm.Barrier();
  const Timer timer;
  for (int i = 0; i < count; ++i) {
    Compute(pause, options.spin);
    if (exchange == Exchange::kOverlapped) reducer.MarkReady(i);
  }
  for (int i = 0; exchange == Exchange::kAtTheEnd && i < count; ++i) reducer.MarkReady(i);
  if (exchange != Exchange::kNone) reducer.Finish();
  return comm.AllReduceValue(timer.Seconds(), ReduceOp::kMax);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Status Run(const Options& options, Communicator& comm) {
  const int64_t each = (options.mib << 18) / options.parameters;
  std::vector<float> gradients(static_cast<size_t>(each * options.parameters), 1.0f);
  std::vector<GradientRange> ranges;
  for (int64_t i = 0; i < options.parameters; ++i) {
    ranges.push_back({"", i * each, (i + 1) * each, each / kColumns, kColumns});
  }
  GradientReducer reducer(Tensor::View(gradients.data(), {static_cast<int64_t>(gradients.size())}),
                          ranges, comm,
                          {.bucket_bytes = static_cast<int64_t>(options.bucket_mib * (1 << 20)),
                           .wire_type = options.wire == "fp32" ? DType::kFloat32 : DType::kBFloat16,
                           .power_sgd = {.rank = static_cast<int>(options.power_sgd_rank)}});
  const double wanted = 1e-3 * static_cast<double>(options.backward_ms);
  double pause = wanted / static_cast<double>(options.parameters);
  // Memory is touched, connections are up.
  Step(options, pause, Exchange::kOverlapped, reducer, comm);
  // Ranks that share cores get less than a core each.
  for (int i = 0; options.spin && i < 3; ++i) {
    pause *= wanted / std::max(Step(options, pause, Exchange::kNone, reducer, comm), 1e-9);
  }
  std::vector<double> alone;
  std::vector<double> with;
  std::vector<double> without;
  for (int64_t i = 0; i < options.steps; ++i) {
    alone.push_back(Step(options, pause, Exchange::kNone, reducer, comm));
    with.push_back(Step(options, pause, Exchange::kOverlapped, reducer, comm));
    without.push_back(Step(options, pause, Exchange::kAtTheEnd, reducer, comm));
  }
  if (!comm.is_root()) return OkStatus();
  const double backward = Median(alone);
  const double exchange = std::max(Median(without) - backward, 1e-9);
  const double coverable = std::max(std::min(backward, exchange), 1e-9);
  std::printf(
      "{\"ranks\":%d,\"mib\":%lld,\"wire\":\"%s\",\"power_sgd_rank\":%lld,\"buckets\":%d,"
      "\"backward_s\":%.4f,"
      "\"spin\":%s,\"with_overlap_s\":%.4f,\"without_overlap_s\":%.4f,\"exchange_s\":%.4f,"
      "\"hidden\":%.3f}\n",
      comm.size(), static_cast<long long>(options.mib), options.wire.c_str(),
      static_cast<long long>(options.power_sgd_rank), reducer.num_buckets(), backward,
      options.spin ? "true" : "false", Median(with), Median(without), exchange,
      (Median(without) - Median(with)) / coverable);
  return OkStatus();
}

Status Check(const Options& options) {
  if (options.mib < 1 || options.parameters < 1 || options.backward_ms < 0 || options.steps < 1 ||
      options.bucket_mib <= 0.0) {
    return UsageError("--mib, --parameters, --steps and --bucket_mib are more than 0");
  }
  if (options.power_sgd_rank < 0) return UsageError("--power_sgd_rank is not negative");
  return options.wire == "fp32" || options.wire == "bf16" ? OkStatus()
                                                          : UsageError("--wire is fp32 or bf16");
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) {
  using namespace dtrain;
  Options options;
  FlagSet flags("mpirun -n 4 -H a:2,b:2 exchange_bench [FLAGS]",
                "times steps with and without overlap of backward and exchange");
  flags.Add("mib", "float32 gradients, MiB", &options.mib);
  flags.Add("parameters", "gradients of equal size", &options.parameters);
  flags.Add("backward_ms", "of the backward pass", &options.backward_ms);
  flags.Add("bucket_mib", "size of a bucket", &options.bucket_mib);
  flags.Add("wire", "fp32 or bf16", &options.wire);
  flags.Add("power_sgd_rank", "columns of PowerSGD's factors; 0 sends whole gradients",
            &options.power_sgd_rank);
  flags.Add("steps", "of each kind, after one of warm-up", &options.steps);
  flags.Add("spin", "backward wants a core for itself", &options.spin);
  Status parsed = flags.ParseAll(argc, argv);
  if (parsed.ok()) parsed = Check(options);
  if (parsed.ok() && flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return 0;
  }
  return RunOnRanks(argc, argv, {}, parsed,
                    [&](Runtime& runtime) { return Run(options, runtime.comm); });
}
