// kernel_bench.cc - speed of each op's kernels on a GPU, held against its measured peaks.
// SPDX-License-Identifier: Apache-2.0
//
//   kernel_bench [--model=base|large|nmt|tiny|all] [--op=PART_OF_A_NAME] [--repeat=K] [--device=N]
//                [--type=bfloat16|float16|float32] [--json]
// base: BERT-base, 64 sequences of 128. large: BERT-large, 32 of 512. nmt: Transformer base, 128
// sentence pairs of 32 tokens. tiny: does it run at all. docs/dev/kernels.md says how to read the
// table.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "device_meter.h"
#include "dtrain/device/cuda/runtime.h"
#include "kernel_bench_ops.h"

namespace dtrain {
namespace {

struct Options {
  MeterOptions meter;
  std::string model = "all";
  bool json = false;
};

constexpr char kUsage[] =
    "usage: kernel_bench [--model=base|large|nmt|tiny|all] [--op=PART_OF_A_NAME] [--repeat=K]\n"
    "                    [--device=N] [--type=bfloat16|float16|float32] [--json]\n";

// False for what is no option.
bool Parse(std::string_view argument, Options& options) {
  if (argument == "--json") return options.json = true;
  const size_t equals = argument.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = argument.substr(0, equals);
  const std::string value(argument.substr(equals + 1));
  if (name == "--op") {
    options.meter.filter = value;
    return true;
  }
  if (name == "--model") {
    options.model = value;
    options.meter.tiny = value == "tiny";
    const std::vector<ModelSizes>& models = BenchModels();
    return value == "all" || std::any_of(models.begin(), models.end(),
                                         [&](const auto& model) { return model.name == value; });
  }
  if (name == "--type") {
    for (const DType type : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
      if (value != Name(type)) continue;
      options.meter.type = type;
      return true;
    }
    return false;
  }
  char* end = nullptr;
  const long number = std::strtol(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || number < 0) return false;
  if (name == "--repeat") options.meter.repeat = static_cast<int>(number);
  if (name == "--device") options.meter.device.index = static_cast<int>(number);
  return (name == "--repeat" && number > 0) || name == "--device";
}

// The least time the measured peaks allow.
double FloorOf(const Work& work, const DeviceMeter& meter) {
  return std::max(work.bytes / meter.copy_bandwidth(), work.flops / meter.product_peak());
}

void PrintTable(const cuda::DeviceProperties& gpu, const DeviceMeter& meter, int repeat) {
  std::printf("%s, %d multiprocessors, %s: copy %.0f GB/s, product %.1f TFLOP/s; medians of %d\n",
              gpu.name.c_str(), gpu.multiprocessors, std::string(Name(meter.type())).c_str(),
              meter.copy_bandwidth() * 1e-9, meter.product_peak() * 1e-12, repeat);
  std::printf("%-6s %-42s %9s %7s %7s %6s %8s %6s %7s\n", "model", "op", "us", "+- us", "GB/s",
              "% copy", "TFLOP/s", "% peak", "% floor");
  for (const Measurement& m : meter.measurements()) {
    std::printf("%-6s %-42s", m.model.c_str(), m.op.c_str());
    if (!m.skipped.empty()) {
      std::printf(" skipped: %s\n", m.skipped.c_str());
      continue;
    }
    const double bandwidth = m.work.bytes / m.seconds;
    std::printf(" %9.1f %7.1f %7.0f %6.1f", m.seconds * 1e6, m.seconds_spread * 1e6,
                bandwidth * 1e-9, 100 * bandwidth / meter.copy_bandwidth());
    const double rate = m.work.flops / m.seconds;
    if (rate > 0) {
      std::printf(" %8.1f %6.1f", rate * 1e-12, 100 * rate / meter.product_peak());
    } else {
      std::printf(" %8s %6s", "", "");
    }
    std::printf(" %7.1f\n", 100 * FloorOf(m.work, meter) / m.seconds);
  }
}

// One object; names hold nothing that would need escaping.
void PrintJson(const cuda::DeviceProperties& gpu, const DeviceMeter& meter, int repeat) {
  std::printf(
      "{\"gpu\": \"%s\", \"compute_capability\": %d, \"multiprocessors\": %d, \"type\": "
      "\"%s\", \"repeat\": %d,\n \"copy_bytes_per_s\": %.6g, \"product_flop_per_s\": %.6g, "
      "\"ops\": [",
      gpu.name.c_str(), gpu.compute_capability, gpu.multiprocessors,
      std::string(Name(meter.type())).c_str(), repeat, meter.copy_bandwidth(),
      meter.product_peak());
  const char* separator = "\n";
  for (const Measurement& m : meter.measurements()) {
    std::printf("%s  {\"model\": \"%s\", \"op\": \"%s\", \"bytes\": %.0f, \"flop\": %.0f, ",
                separator, m.model.c_str(), m.op.c_str(), m.work.bytes, m.work.flops);
    if (m.skipped.empty()) {
      std::printf("\"seconds\": %.6g, \"quartile_range\": %.3g, \"of_floor\": %.4f}", m.seconds,
                  m.seconds_spread, FloorOf(m.work, meter) / m.seconds);
    } else {
      std::printf("\"skipped\": true}");
    }
    separator = ",\n";
  }
  std::printf("\n ]}\n");
}

int Run(const Options& options) {
  std::string why;
  const int count = cuda::DeviceCount(&why);
  if (options.meter.device.index >= count) {
    std::fprintf(stderr,
                 "kernel_bench: no GPU %d here (%s): it measures CUDA kernels only; for the "
                 "CPU there is op_bench\n",
                 options.meter.device.index,
                 count == 0 ? why.c_str() : (std::to_string(count) + " in all").c_str());
    return 2;
  }
  const cuda::DeviceProperties gpu = cuda::Properties(options.meter.device);
  DeviceMeter meter(options.meter);
  for (const ModelSizes& model : BenchModels()) {
    if (options.model == model.name || (options.model == "all" && model.name != "tiny")) {
      meter.SetModel(model.name);
      BenchModelOps(meter, model);
    }
  }
  (options.json ? PrintJson : PrintTable)(gpu, meter, options.meter.repeat);
  return 0;
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) {
  dtrain::Options options;
  for (int i = 1; i < argc; ++i) {
    if (!dtrain::Parse(argv[i], options)) {
      std::fprintf(stderr, "kernel_bench: %s is no option\n%s", argv[i], dtrain::kUsage);
      return 2;
    }
  }
  try {
    return dtrain::Run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_bench: %s\n", error.what());
    return 1;
  }
}
