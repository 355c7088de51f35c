// doctor.cc - the measurements: pairs of ranks, allreduce, disk, clocks, interfaces.
// SPDX-License-Identifier: Apache-2.0
#include "planning/doctor.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

#include "dtrain/base/random.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/clock_offset.h"
#include "dtrain/comm/device_communicator.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/groups.h"
#include "dtrain/comm/internal/combine.h"
#include "dtrain/distributed/internal/low_rank.h"
#include "dtrain/launch/version.h"
#include "dtrain/ops/attention_engine.h"
#include "dtrain/ops/gemm.h"
#include "planning/launcher_connections.h"
#include "planning/scaling_plan.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

double SystemClock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Status NotWritable(const std::string& directory) {
  return UsageError(directory + ": cannot be written on any host; --dir names a folder that can");
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0.0 : values[values.size() / 2];
}

// Bytes sent and received so far, by interface.
std::map<std::string, int64_t> InterfaceBytes() {
  std::map<std::string, int64_t> bytes;
  std::ifstream file("/proc/net/dev");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::istringstream name(line.substr(0, colon));
    std::istringstream numbers(line.substr(colon + 1));
    std::string key;
    name >> key;
    int64_t received = 0;
    int64_t sent = 0;
    int64_t skipped = 0;
    numbers >> received;
    for (int i = 0; i < 7; ++i) numbers >> skipped;
    numbers >> sent;
    if (key != "lo") bytes[key] = received + sent;
  }
  return bytes;
}

// Mbit/s of an interface that is up, 0 where the system does not say.
int64_t InterfaceSpeed(const std::string& name) {
  int64_t mbit = 0;
  std::ifstream("/sys/class/net/" + name + "/speed") >> mbit;
  return std::max<int64_t>(mbit, 0);
}

// The interface over which most bytes went since `before`, if that was a network's worth at all.
void FindInterface(const std::map<std::string, int64_t>& before, HostReport& host) {
  int64_t most = int64_t{1} << 20;
  for (const auto& [name, bytes] : InterfaceBytes()) {
    const auto old = before.find(name);
    const int64_t moved = bytes - (old == before.end() ? 0 : old->second);
    if (moved <= most) continue;
    most = moved;
    host.network_interface = name;
  }
  if (host.network_interface.empty()) return;
  host.interface_mbit = InterfaceSpeed(host.network_interface);
  int64_t fastest = host.interface_mbit;
  for (const auto& [name, bytes] : InterfaceBytes()) {
    if (host.interface_mbit == 0 || InterfaceSpeed(name) <= fastest) continue;
    // Bridges and pairs of containers claim 10 Gb/s and reach no other host.
    if (std::error_code error; !fs::exists("/sys/class/net/" + name + "/device", error)) continue;
    fastest = InterfaceSpeed(name);
    host.faster_interface = name;
  }
}

// Bytes per second of a new file, synchronised; 0 where it cannot be written.
double DiskSpeed(const DoctorOptions& options, int rank) {
  const std::string path = fs::path(options.directory) / (".dtrain-doctor-" + std::to_string(rank) +
                                                          "-" + std::to_string(::getpid()));
  const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return 0.0;
  const std::vector<char> block(1 << 20, 'x');
  const Timer timer;
  int64_t written = 0;
  while (written < options.disk_bytes) {
    const ssize_t now = ::write(file, block.data(), block.size());
    if (now <= 0) break;
    written += now;
  }
  const bool is_whole = written >= options.disk_bytes && ::fsync(file) == 0;
  const double seconds = timer.Seconds();
  ::close(file);
  ::unlink(path.c_str());
  return is_whole ? static_cast<double>(written) / seconds : 0.0;
}

int Cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// What a rank tells of itself, as plain bytes.
struct RankFacts {
  int threads = 0;
  int cores = 0;
  int64_t memory_bytes = 0;
  double disk_bytes_per_second = 0.0;
  int64_t interface_mbit = 0;
  std::array<char, 32> network_interface{};
  std::array<char, 32> faster_interface{};
};

template <size_t n>
void Put(const std::string& text, std::array<char, n>& out) {
  std::strncpy(out.data(), text.c_str(), n - 1);
}

// A message from one rank of `pair` to the other.
void Send(int sender, std::vector<std::byte>& data, Communicator& pair) {
  const auto bytes = static_cast<int64_t>(data.size());
  const std::array<int64_t, 3> nothing = {0, 0, 0};
  const std::array<int64_t, 3> first = {0, bytes, bytes};
  const std::array<int64_t, 3> second = {0, 0, bytes};
  std::byte none{};
  if (pair.rank() == sender) {
    pair.StartAllToAllV(data.data(), sender == 0 ? second : first, &none, nothing)->Wait();
  } else {
    pair.StartAllToAllV(&none, nothing, data.data(), sender == 0 ? first : second)->Wait();
  }
}

struct PairTimes {
  double latency_seconds = 0.0;
  double bytes_per_second = 0.0;
  double clock_offset = 0.0;  // of the second rank against the first
};

PairTimes MeasurePair(Communicator& pair) {
  PairTimes times;
  std::vector<std::byte> data(8);
  std::vector<double> latencies;
  for (int i = 0; i < 50; ++i) {
    const Timer timer;
    Send(0, data, pair);
    Send(1, data, pair);
    latencies.push_back(timer.Seconds() / 2);
  }
  times.latency_seconds = pair.AllReduceValue(Median(latencies), ReduceOp::kMax);
  times.clock_offset = MeasureClockOffsets(pair, SystemClock)[1];
  // Larger and larger, until a message takes long enough to be measured. One way after the other:
  // both at once, the one connection of a pair carries less than a line does.
  // The quickest of some: what a line carries, and not what else the host did meanwhile.
  for (int64_t bytes = 1 << 16; bytes <= int64_t{32} << 20; bytes *= 4) {
    data.resize(static_cast<size_t>(bytes));
    double slower = 0.0;
    for (const int sender : {0, 1}) {
      Send(sender, data, pair);  // memory is touched, the connection is up
      double quickest = std::numeric_limits<double>::infinity();
      for (int i = 0; i < 3; ++i) {
        pair.Barrier();
        const Timer timer;
        Send(sender, data, pair);
        quickest = std::min(quickest, pair.AllReduceValue(timer.Seconds(), ReduceOp::kMax));
      }
      slower = std::max(slower, quickest);
    }
    times.bytes_per_second = static_cast<double>(bytes) / slower;
    if (slower > 0.1) break;
  }
  return times;
}

// What exchanges cost a rank beside the network: scaling_plan.h says what goes at these speeds.
struct WorkSpeeds {
  double memory_bytes = 0.0;    // per second
  double low_rank_flops = 0.0;  // per second
};

// Times a second that `round` runs, on average, so that ranks that share a core count as long.
double RoundsPerSecond(const std::function<void()>& round) {
  constexpr double kLeastSeconds = 0.3;
  int rounds = 0;
  const Timer timer;
  while (rounds < 3 || timer.Seconds() < kLeastSeconds) {
    round();
    ++rounds;
  }
  return rounds / timer.Seconds();
}

// The steps of distributed/internal/power_sgd_exchange.h on gradients of 4 M parameters, of a rank
// that is an eighth of their width: gradients that go to shared memory and are added from there,
// and the products that make factors of them. All ranks at once.
WorkSpeeds MeasureWork(Communicator& comm) {
  constexpr int kMatrices = 8;
  constexpr int kRank = 64;
  constexpr internal::MatrixSize kSize = {512, 1024};
  constexpr int64_t kElements = kMatrices * kSize.elements();
  constexpr double kBytesOfSum = 20.0;  // per float: copied, and added from there
  RandomStream random({.seed = 1});
  const auto draw = [&] { return static_cast<float>(random.NextUint32()) * 0x1p-32f - 0.5f; };
  std::vector<float> gradients(kElements);
  std::generate(gradients.begin(), gradients.end(), draw);
  std::vector<float> errors(kElements);
  std::vector<float> shared(kSize.elements());
  std::vector<float> left(kRank * kSize.rows);
  std::vector<float> factor(kRank * kSize.columns);
  std::generate(factor.begin(), factor.end(), draw);
  std::vector<float> right(factor);
  Stream stream;
  Tensor left_view = Tensor::View(left.data(), {kRank, kSize.rows});
  Tensor right_view = Tensor::View(right.data(), {kRank, kSize.columns});
  const Tensor factor_view = Tensor::View(factor.data(), {kRank, kSize.columns});
  const auto add = [&](float* gradient) {
    std::copy_n(gradient, kSize.elements(), shared.data());
    const std::array<const std::byte*, 2> sources = {
        std::as_bytes(std::span(gradient, kSize.elements())).data(),
        std::as_bytes(std::span(shared)).data()};
    internal::Combine(DType::kFloat32, ReduceOp::kAverage, sources, kSize.elements(),
                      /*divisor=*/2, std::as_writable_bytes(std::span(gradient, 1)).data());
  };
  const auto encode = [&](float* gradient, float* error) {
    const Tensor matrix = Tensor::View(gradient, {kSize.rows, kSize.columns});
    Gemm(factor_view, matrix, {.transpose_b = true}, left_view, stream);
    internal::OrthonormaliseRows(left.data(), kRank, kSize.rows);
    Gemm(left_view, matrix, {}, right_view, stream);
    internal::SplitOffError(
        {.left = left.data(), .own = right.data(), .sum = right.data(), .rank = kRank}, kSize, 1.0f,
        gradient, error, stream);
  };
  const auto each_matrix = [&](const auto& work) {
    for (int64_t at = 0; at < kElements; at += kSize.elements()) {
      work(gradients.data() + at, errors.data() + at);
    }
  };
  WorkSpeeds speeds;
  comm.Barrier();
  const double additions = RoundsPerSecond([&] { each_matrix([&](float* g, float*) { add(g); }); });
  speeds.memory_bytes = kBytesOfSum * static_cast<double>(kElements) * additions;
  comm.Barrier();
  const double encodings = RoundsPerSecond([&] { each_matrix(encode); });
  const PowerSgdWork work = PowerSgdWorkOf(kElements, kRank);
  const double in_memory = work.memory_bytes / speeds.memory_bytes;
  // Where it is nearly all memory, what is left is a difference of two measurements.
  speeds.low_rank_flops = work.flops / std::max(1 / encodings - in_memory, 0.1 / encodings);
  return speeds;
}

class Examination {
 public:
  Examination(const DoctorOptions& options, Runtime& runtime)
      : options_(options), runtime_(runtime), comm_(runtime.comm) {}

  StatusOr<DoctorReport> Run() {
    report_.mpi = runtime_.mpi;
    report_.ranks = comm_.size();
    report_.keep_alive_seconds = SecondsToKeepAlive(getppid());
    FindHosts();
    ConnectGpus();
    const std::map<std::string, int64_t> before = InterfaceBytes();
    MeasurePairs();
    Sweep();
    HostReport mine;
    FindInterface(before, mine);
    const WorkSpeeds speeds = MeasureWork(comm_);
    report_.memory_bytes_per_second = comm_.AllReduceValue(speeds.memory_bytes, ReduceOp::kMin);
    report_.low_rank_flops_per_second = comm_.AllReduceValue(speeds.low_rank_flops, ReduceOp::kMin);
    const double disk =
        comm_.topology().local_rank() == 0 ? DiskSpeed(options_, comm_.rank()) : 0.0;
    GatherHosts(mine, disk);
    for (const HostReport& host : report_.hosts) {
      if (host.disk_bytes_per_second > 0.0) return report_;
    }
    return NotWritable(options_.directory);
  }

 private:
  // Leaders are the first ranks of the hosts, in the hosts' order.
  void FindHosts() {
    std::map<std::string, size_t> place;
    for (int r = 0; r < comm_.size(); ++r) {
      const auto [at, is_new] = place.try_emplace(comm_.topology().host(r), report_.hosts.size());
      if (is_new) {
        report_.hosts.push_back({.name = comm_.topology().host(r)});
        leaders_.push_back(r);
        seconds_.push_back(-1);
      } else if (seconds_[at->second] < 0) {
        seconds_[at->second] = r;
      }
      ++report_.hosts[at->second].ranks;
    }
  }

  // As a training run does.
  void ConnectGpus() {
    if (runtime_.device.type == DeviceType::kCpu) return;
    const auto gpus = MakeDeviceCommunicator(comm_, runtime_.device, &report_.without_nccl);
    if (gpus) report_.nccl = gpus->description();
  }

  void MeasurePairs() {
    for (size_t i = 0; i < leaders_.size(); ++i) {
      if (seconds_[i] >= 0) AddPair(leaders_[i], seconds_[i]);
    }
    // All pairs of up to sixteen hosts; of more, each with the next.
    for (size_t i = 0; i < leaders_.size(); ++i) {
      const size_t end = leaders_.size() <= 16 ? leaders_.size() : std::min(i + 2, leaders_.size());
      for (size_t j = i + 1; j < end; ++j) {
        const PairTimes times = AddPair(leaders_[i], leaders_[j]);
        if (i == 0) report_.hosts[j].clock_offset = times.clock_offset;
      }
    }
  }

  PairTimes AddPair(int first, int second) {
    const std::array<int, 2> ranks = {first, second};
    const std::unique_ptr<Communicator> pair = MakeGroup(comm_, ranks);
    PairTimes times = pair ? MeasurePair(*pair) : PairTimes{};
    comm_.Broadcast(&times, sizeof(times), first);
    report_.pairs.push_back({.first = comm_.topology().host(first),
                             .second = comm_.topology().host(second),
                             .latency_seconds = times.latency_seconds,
                             .bytes_per_second = times.bytes_per_second});
    return times;
  }

  void Sweep() {
    if (comm_.size() == 1) return;
    const double factor = 2.0 * (comm_.size() - 1) / comm_.size();
    std::vector<float> data(static_cast<size_t>(options_.largest_bytes) / sizeof(float));
    for (int64_t bytes = 4096; bytes <= options_.largest_bytes; bytes *= 4) {
      const std::span<float> part =
          std::span(data).first(static_cast<size_t>(bytes) / sizeof(float));
      std::vector<double> times;
      double sum = 0.0;
      // The slowest rank's times, so that all ranks stop together.
      while (times.size() < 3 || (sum < 0.1 && times.size() < 50)) {
        comm_.Barrier();
        const Timer timer;
        comm_.AllReduce(part, ReduceOp::kSum);
        times.push_back(comm_.AllReduceValue(timer.Seconds(), ReduceOp::kMax));
        sum += times.back();
      }
      const double seconds = Median(times);
      report_.sweep.push_back(
          {.bytes = bytes,
           .seconds = seconds,
           .bus_bytes_per_second = static_cast<double>(bytes) * factor / seconds});
      if (seconds > 3.0) break;
    }
  }

  void GatherHosts(const HostReport& mine, double disk) {
    RankFacts facts{
        .threads = runtime_.threads,
        .cores = Cores(),
        .memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE),
        .disk_bytes_per_second = disk,
        .interface_mbit = mine.interface_mbit};
    Put(mine.network_interface, facts.network_interface);
    Put(mine.faster_interface, facts.faster_interface);
    const std::vector<RankFacts> all = AllGather(comm_, facts);
    const std::vector<std::string> builds = AllGatherStrings(comm_, BuildDescription());
    const std::vector<std::string> devices = AllGatherStrings(comm_, DeviceName(runtime_.device));
    const std::vector<std::string> without_cudnn = AllGatherStrings(
        comm_, runtime_.device.type == DeviceType::kCpu ? std::string() : WhyNoCudnn());
    for (size_t i = 0; i < leaders_.size(); ++i) {
      const auto leader = static_cast<size_t>(leaders_[i]);
      HostReport& host = report_.hosts[i];
      host.build = builds[leader];
      host.device = devices[leader];
      host.without_cudnn = without_cudnn[leader];
      host.threads = all[leader].threads;
      host.cores = all[leader].cores;
      host.memory_bytes = all[leader].memory_bytes;
      host.disk_bytes_per_second = all[leader].disk_bytes_per_second;
      host.interface_mbit = all[leader].interface_mbit;
      host.network_interface = all[leader].network_interface.data();
      host.faster_interface = all[leader].faster_interface.data();
    }
  }

  const DoctorOptions& options_;
  Runtime& runtime_;
  Communicator& comm_;
  DoctorReport report_;
  std::vector<int> leaders_;  // by host
  std::vector<int> seconds_;  // by host: its second rank, or -1
};

}  // namespace

StatusOr<DoctorReport> ExamineJob(const DoctorOptions& options, Runtime& runtime) {
  // Before minutes of measurements.
  const int is_writable = ::access(options.directory.c_str(), W_OK) == 0 ? 1 : 0;
  if (runtime.comm.AllReduceValue(is_writable, ReduceOp::kMax) == 0) {
    return NotWritable(options.directory);
  }
  return Examination(options, runtime).Run();
}

}  // namespace dtrain
