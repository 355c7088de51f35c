// allreduce_bench.cc - bus bandwidth of the library's allreduce against MPI_Allreduce.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 2 allreduce_bench [--max_mib=64] [--json] [--messages] [--slot_kib=128]
//                                [--small_kib=32] [--piece_kib=512]
// --messages: without shared memory. One line per size: median time of each, and bus bandwidth,
// also of the best repetition, = bytes / time x 2 (n - 1) / n, the figure that does not depend on
// the number of ranks. Every timed result is checked.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/timer.h"
#include "dtrain/comm/environment.h"
#include "dtrain/comm/mpi_communicator.h"

namespace {

using namespace dtrain;

struct Flags {
  int64_t max_mib = 64;
  int64_t piece_kib = 0;  // 0: the library's default
  int64_t small_kib = -1;
  int64_t slot_kib = 0;
  bool messages = false;  // no shared memory
  bool json = false;
};

Flags ParseFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const auto number = [&](std::string_view name, int64_t* value) {
      if (!flag.starts_with(name)) return false;
      *value = std::atoll(argv[i] + name.size());
      return true;
    };
    if (flag == "--json") {
      flags.json = true;
    } else if (flag == "--messages") {
      flags.messages = true;
    } else if (!number("--max_mib=", &flags.max_mib) && !number("--piece_kib=", &flags.piece_kib) &&
               !number("--small_kib=", &flags.small_kib) &&
               !number("--slot_kib=", &flags.slot_kib)) {
      std::fprintf(stderr, "allreduce_bench: unknown flag %s\n", argv[i]);
      Environment::Abort(ExitCode::kUsage);
    }
  }
  return flags;
}

// Seconds of the slowest rank for one allreduce of `data`, whose result is checked.
double SecondsOf(Communicator& comm, std::vector<float>& data,
                 const std::function<void()>& reduce) {
  std::fill(data.begin(), data.end(), static_cast<float>(comm.rank() + 1));
  comm.Barrier();
  const Timer timer;
  reduce();
  const double slowest = comm.AllReduceValue(timer.Seconds(), ReduceOp::kMax);
  const int ranks_sum = comm.size() * (comm.size() + 1) / 2;
  const auto expected = static_cast<float>(ranks_sum);
  if (std::any_of(data.begin(), data.end(), [&](float x) { return x != expected; })) {
    std::fprintf(stderr, "allreduce_bench: wrong sum of %zu floats\n", data.size());
    Environment::Abort(ExitCode::kInternal);
  }
  return slowest;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The two take turns, so that whatever else the machine does meets both.
void Measure(Communicator& comm, int64_t bytes, bool json) {
  std::vector<float> data(static_cast<size_t>(bytes / 4));
  const int repetitions = bytes > (4 << 20) ? 9 : 41;
  std::vector<double> our_seconds;
  std::vector<double> mpi_seconds;
  for (int i = 0; i < repetitions + 2; ++i) {
    const double ours =
        SecondsOf(comm, data, [&] { comm.AllReduce(std::span<float>(data), ReduceOp::kSum); });
    const double theirs = SecondsOf(comm, data, [&] {
      MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    });
    if (i < 2) continue;
    our_seconds.push_back(ours);
    mpi_seconds.push_back(theirs);
  }
  if (!comm.is_root()) return;
  const double bus = 2.0 * (comm.size() - 1) / comm.size() * static_cast<double>(bytes) / 1e6;
  const auto best = [&](const std::vector<double>& seconds) {
    return bus / *std::min_element(seconds.begin(), seconds.end());
  };
  const double ours = Median(our_seconds);
  const double theirs = Median(mpi_seconds);
  std::printf(json ? "{\"ranks\": %d, \"bytes\": %lld, \"us\": %.1f, \"mpi_us\": %.1f, "
                     "\"bus_mb_s\": %.0f, \"mpi_bus_mb_s\": %.0f, \"best_bus_mb_s\": %.0f, "
                     "\"best_mpi_bus_mb_s\": %.0f}\n"
                   : "%5d %12lld %12.1f %12.1f %12.0f %12.0f %12.0f %12.0f\n",
              comm.size(), static_cast<long long>(bytes), ours * 1e6, theirs * 1e6, bus / ours,
              bus / theirs, best(our_seconds), best(mpi_seconds));
}

}  // namespace

int main(int argc, char** argv) {
  const auto environment = Environment::Create();
  if (!environment.ok()) {
    std::fprintf(stderr, "%s\n", environment.status().message().c_str());
    return static_cast<int>(environment.status().code());
  }
  const Flags flags = ParseFlags(argc, argv);
  if ((*environment)->World().size() < 2) {
    std::fprintf(stderr, "allreduce_bench: start it with mpirun -n 2 or more\n");
    return static_cast<int>(ExitCode::kUsage);
  }
  CommunicatorOptions options;
  if (flags.piece_kib > 0) options.piece_bytes = flags.piece_kib << 10;
  if (flags.small_kib >= 0) options.small_bytes = flags.small_kib << 10;
  if (flags.slot_kib > 0) options.slot_bytes = flags.slot_kib << 10;
  options.shared_memory = !flags.messages;
  const auto comm = MakeMpiCommunicator(options);
  if (comm->is_root() && !flags.json) {
    std::printf(
        "ranks        bytes      ours us       MPI us    ours MB/s     MPI MB/s    best ours     "
        "best MPI (bus)\n");
  }
  try {
    for (int64_t bytes = 4; bytes <= flags.max_mib << 20; bytes *= 4) {
      Measure(*comm, bytes, flags.json);
    }
  } catch (const CommError& error) {
    std::fprintf(stderr, "allreduce_bench: %s\n", error.what());
    Environment::Abort(ExitCode::kCommunication);
  }
  return 0;
}
