// doctor.h - measures hosts, network, disk and clocks of a job, and says what would help.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const DoctorReport report, ExamineJob(options, runtime));
//   std::fputs(DoctorText(report).c_str(), stdout);
#ifndef DTRAIN_PLANNING_DOCTOR_H_
#define DTRAIN_PLANNING_DOCTOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"

namespace dtrain {

struct DoctorOptions {
  std::string directory = ".";  // where the disk is measured: that of the run directories
  int64_t disk_bytes = int64_t{64} << 20;
  int64_t largest_bytes = int64_t{64} << 20;  // of the allreduce sweep
};

struct HostReport {
  std::string name = {};
  std::string build = {};          // what the program says of itself there
  std::string device = {};         // of its first rank
  std::string without_cudnn = {};  // why its GPUs cannot use cuDNN; "" where they can, and on CPUs
  int ranks = 0;
  int threads = 0;  // of its first rank
  int cores = 0;
  int64_t memory_bytes = 0;
  double clock_offset = 0.0;           // seconds ahead of the first host's
  double disk_bytes_per_second = 0.0;  // written and synchronised; 0: could not be written
  std::string network_interface = {};  // which carried the sweep's bytes; "" where none did
  int64_t interface_mbit = 0;          // its speed as the system says it; 0: unknown
  std::string faster_interface = {};   // another one that is up and faster; "" where there is none
};

// Two ranks: the first ones of two hosts, or the first two of one.
struct PairReport {
  std::string first = {}, second = {};  // hosts
  double latency_seconds = 0.0;         // of a message of 8 bytes
  double bytes_per_second = 0.0;        // of the slower way
};

struct AllReduceReport {
  int64_t bytes = 0;
  double seconds = 0.0;
  double bus_bytes_per_second = 0.0;  // bytes * 2 (n - 1) / n / seconds
};

struct DoctorReport {
  std::string mpi;
  int ranks = 0;
  // Until the launcher next asks hosts that are silent whether they are there, as the kernel says
  // of its connections: infinity if it never does, or nothing without other hosts.
  std::optional<double> keep_alive_seconds = {};
  std::string nccl = {};          // "NCCL 2.28.9, flat", which connects the GPUs, and else ...
  std::string without_nccl = {};  // ... why it does not; both "" on CPUs
  // Of the slowest rank, while all do the same (PlanTimes).
  double memory_bytes_per_second = 0.0;
  double low_rank_flops_per_second = 0.0;
  std::vector<HostReport> hosts;
  std::vector<PairReport> pairs;
  std::vector<AllReduceReport> sweep;  // by size
};

// Collective: all ranks get the whole report. UsageError where `directory` cannot be written on any
// host.
StatusOr<DoctorReport> ExamineJob(const DoctorOptions& options, Runtime& runtime);

// What stands out, one sentence each with the flag that would help; the most serious first. Empty
// where nothing does.
std::vector<std::string> Diagnose(const DoctorReport& report);

// For people: tables and the diagnosis.
std::string DoctorText(const DoctorReport& report);
// One line; bytes, seconds.
std::string DoctorJson(const DoctorReport& report);

}  // namespace dtrain

#endif  // DTRAIN_PLANNING_DOCTOR_H_
