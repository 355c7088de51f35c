// host_sampler.cc - reads /proc into records, on a thread of its own.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/host_sampler.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/log.h"
#include "dtrain/base/unix_time.h"
#include "dtrain/runs/record_names.h"

namespace dtrain {
namespace {

constexpr double kSectorBytes = 512.0;  // of /proc/diskstats, whatever the disk's own are

double TicksPerSecond() { return static_cast<double>(::sysconf(_SC_CLK_TCK)); }

// cpu  user nice system idle iowait irq softirq steal guest guest_nice: ticks. guest is in user.
void AddProcessors(const std::string& proc, JsonRecord& record) {
  std::ifstream file(proc + "/stat");
  std::string name;
  file >> name;
  double total = 0.0;
  double idle = 0.0;
  for (int field = 0; field < 8; ++field) {
    double ticks = 0.0;
    if (!(file >> ticks)) break;
    total += ticks;
    if (field == 3 || field == 4) idle += ticks;
  }
  if (name != "cpu" || total == 0.0) return;
  record.Set(recorded::kCpuBusy, (total - idle) / TicksPerSecond())
      .Set(recorded::kCpuTotal, total / TicksPerSecond());
}

// "MemTotal:  24684084 kB"
void AddMemory(const std::string& proc, JsonRecord& record) {
  std::ifstream file(proc + "/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    int64_t kilobytes = 0;
    if (!(fields >> name >> kilobytes)) continue;
    if (name == "MemTotal:") record.Set(recorded::kMemoryTotal, 1024 * kilobytes);
    if (name == "MemAvailable:") record.Set(recorded::kMemoryAvailable, 1024 * kilobytes);
    if (name == "Cached:") record.Set(recorded::kPageCache, 1024 * kilobytes);
  }
}

// True for a disk, false for a partition of one, a loop device or what is made of disks.
bool IsDisk(const std::string& name) {
  for (const char* const prefix : {"loop", "ram", "dm-", "md", "zram", "sr"}) {
    if (name.starts_with(prefix)) return false;
  }
  const bool ends_in_digit = !name.empty() && name.back() >= '0' && name.back() <= '9';
  // nvme0n1 and mmcblk0 are disks, nvme0n1p2 and mmcblk0p1 partitions; sda and vda, sda1 and vda1.
  const bool is_numbered = name.starts_with("nvme") || name.starts_with("mmcblk");
  return is_numbered ? name.find('p', 4) == std::string::npos : !ends_in_digit;
}

// major minor name reads merged sectors ms writes merged sectors ms ...
void AddDisks(const std::string& proc, JsonRecord& record) {
  std::ifstream file(proc + "/diskstats");
  double read = 0.0;
  double written = 0.0;
  bool has_disk = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string major;
    std::string minor;
    std::string name;
    double skipped = 0.0;
    double sectors_read = 0.0;
    double sectors_written = 0.0;
    if (!(fields >> major >> minor >> name >> skipped >> skipped >> sectors_read >> skipped >>
          skipped >> skipped >> sectors_written) ||
        !IsDisk(name)) {
      continue;
    }
    has_disk = true;
    read += kSectorBytes * sectors_read;
    written += kSectorBytes * sectors_written;
  }
  if (!has_disk) return;
  record.Set(recorded::kDiskRead, read).Set(recorded::kDiskWritten, written);
}

// "  eth0: received packets errs drop fifo frame compressed multicast sent ..."
void AddNetworks(const std::string& proc, JsonRecord& record) {
  std::ifstream file(proc + "/net/dev");
  JsonRecord networks;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name =
        line.substr(line.find_first_not_of(' '), colon - line.find_first_not_of(' '));
    std::istringstream fields(line.substr(colon + 1));
    double received = 0.0;
    double sent = 0.0;
    double skipped = 0.0;
    fields >> received;
    for (int i = 0; i < 7; ++i) fields >> skipped;
    if (!(fields >> sent) || name == "lo") continue;
    networks.Set(name, JsonRecord().Set(recorded::kReceived, received).Set(recorded::kSent, sent));
  }
  if (!networks.empty()) record.Set(recorded::kNetworks, networks);
}

// pid (name) state ppid ... field 14 utime, 15 stime, 24 rss in pages. The name may hold spaces.
void AddRank(const std::string& proc, const SampledRank& rank, JsonRecord& ranks) {
  std::ifstream file(absl::StrCat(proc, "/", rank.process, "/stat"));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  double ticks = 0.0;
  for (int i = 3; i <= 24 && fields >> field; ++i) {
    if (i == 14 || i == 15) ticks += std::strtod(field.c_str(), nullptr);
  }
  if (!fields) return;
  const double pages = std::strtod(field.c_str(), nullptr);
  const double memory = pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
  ranks.Set(
      std::to_string(rank.rank),
      JsonRecord().Set(recorded::kCpu, ticks / TicksPerSecond()).Set(recorded::kMemory, memory));
}

}  // namespace

JsonRecord SampleHost(const std::vector<SampledRank>& ranks, const std::string& proc) {
  JsonRecord record;
  record.Set(recorded::kTime, SecondsSince1970());
  AddProcessors(proc, record);
  AddMemory(proc, record);
  AddDisks(proc, record);
  AddNetworks(proc, record);
  JsonRecord processes;
  for (const SampledRank& rank : ranks) AddRank(proc, rank, processes);
  if (!processes.empty()) record.Set(recorded::kRanks, processes);
  return record;
}

std::unique_ptr<HostSampler> HostSampler::Start(const std::string& path,
                                                std::vector<SampledRank> ranks, double seconds) {
  StatusOr<MetricsLog> log = MetricsLog::Open(path, recorded::kHost);
  if (!log.ok()) {
    LogWarning(absl::StrCat("the host is not sampled: ", log.status().message()));
    return nullptr;
  }
  return std::unique_ptr<HostSampler>(new HostSampler(*std::move(log), std::move(ranks), seconds));
}

HostSampler::HostSampler(MetricsLog log, std::vector<SampledRank> ranks, double seconds)
    : log_(std::move(log)), ranks_(std::move(ranks)), seconds_(seconds) {
  thread_ = std::thread([this] { Loop(); });
}

HostSampler::~HostSampler() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void HostSampler::Loop() {
  std::unique_lock lock(mutex_);
  for (bool is_last = false; !is_last;) {
    is_last = ends_;
    lock.unlock();
    const Status written = log_.Write(SampleHost(ranks_));
    if (!written.ok()) {
      LogWarning(absl::StrCat("the host is no longer sampled: ", written.message()));
      return;
    }
    lock.lock();
    if (!is_last) {
      wake_.wait_for(lock, std::chrono::duration<double>(seconds_), [this] { return ends_; });
    }
  }
}

}  // namespace dtrain
