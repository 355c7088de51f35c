// doctor_text.cc - what a doctor's report says to people: tables, and what stands out.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/comm/internal/network_choice.h"
#include "planning/doctor.h"

namespace dtrain {
namespace {

// The gradients of Transformer-base with a vocabulary of 32,768 in fp32: 60.9 M parameters.
constexpr double kBaseGradientBytes = 60.9e6 * 4;

bool IsBetweenHosts(const PairReport& pair) { return pair.first != pair.second; }

std::string Speed(double bytes_per_second) {
  return bytes_per_second >= 1e9 ? absl::StrFormat("%.2f GB/s", bytes_per_second / 1e9)
                                 : absl::StrFormat("%.1f MB/s", bytes_per_second / 1e6);
}

std::string Seconds(double seconds) {
  return seconds >= 1.0    ? absl::StrFormat("%.2f s", seconds)
         : seconds >= 1e-3 ? absl::StrFormat("%.2f ms", seconds * 1e3)
                           : absl::StrFormat("%.0f us", seconds * 1e6);
}

std::string Size(int64_t bytes) {
  return bytes >= 1 << 20 ? absl::StrFormat("%d MiB", bytes >> 20)
                          : absl::StrFormat("%d KiB", bytes >> 10);
}

// The launcher notices a silent host soon.
bool WatchesCables(const DoctorReport& report) {
  constexpr double kSoon = 60;
  return report.keep_alive_seconds.value_or(0) <= kSoon;
}

// What the launcher's connections do, in words.
std::string KeepAlive(const DoctorReport& report) {
  if (!report.keep_alive_seconds) return "";
  if (std::isinf(*report.keep_alive_seconds)) {
    return "the launcher's connections send no keep-alive messages\n";
  }
  return absl::StrFormat(
      "the launcher's connections send keep-alive messages, the next one in %.0f s\n",
      *report.keep_alive_seconds);
}

using Sentences = std::vector<std::string>;

void DiagnoseBuilds(const DoctorReport& report, Sentences& out) {
  for (const HostReport& host : report.hosts) {
    if (host.build == report.hosts.front().build) continue;
    out.push_back(absl::StrCat("host ", host.name, " runs another build (", host.build, ") than ",
                               report.hosts.front().name, " (", report.hosts.front().build,
                               "): install the same on all hosts"));
  }
}

void DiagnoseCores(const DoctorReport& report, Sentences& out) {
  for (const HostReport& host : report.hosts) {
    if (host.ranks > host.cores) {
      out.push_back(
          absl::StrFormat("host %s has %d ranks on %d cores: start at most %d there "
                          "(-H %s:%d), each with the threads that are left",
                          host.name, host.ranks, host.cores, host.cores, host.name, host.cores));
    } else if (host.ranks * host.threads > host.cores) {
      out.push_back(absl::StrFormat(
          "host %s runs %d ranks with %d threads each on %d cores: set "
          "OMP_NUM_THREADS=%d",
          host.name, host.ranks, host.threads, host.cores, std::max(host.cores / host.ranks, 1)));
    }
  }
}

void DiagnoseGpus(const DoctorReport& report, Sentences& out) {
  if (!report.without_nccl.empty() && report.ranks > 1) {
    out.push_back("gradients of GPUs travel through the host's memory, without NCCL: " +
                  report.without_nccl);
  }
  for (const HostReport& host : report.hosts) {
    if (host.without_cudnn.empty()) continue;
    out.push_back(absl::StrCat("host ", host.name,
                               " has dtrain's attention kernels alone, so "
                               "kernels.attention=auto and cudnn cannot be chosen: ",
                               host.without_cudnn));
  }
}

void DiagnoseNetwork(const DoctorReport& report, Sentences& out) {
  std::vector<const PairReport*> pairs;
  for (const PairReport& pair : report.pairs) {
    if (IsBetweenHosts(pair)) pairs.push_back(&pair);
  }
  if (pairs.empty()) return;
  std::sort(pairs.begin(), pairs.end(), [](const PairReport* a, const PairReport* b) {
    return a->bytes_per_second < b->bytes_per_second;
  });
  const PairReport& slowest = *pairs.front();
  const double median = pairs[pairs.size() / 2]->bytes_per_second;
  if (slowest.bytes_per_second < 0.5 * median) {
    out.push_back(absl::StrFormat(
        "%s and %s exchange %s, half of what other hosts do (%s): look at "
        "their cards, cables and switch",
        slowest.first, slowest.second, Speed(slowest.bytes_per_second), Speed(median)));
  }
  if (report.sweep.empty()) return;
  const AllReduceReport& largest = report.sweep.back();
  const double update = kBaseGradientBytes / static_cast<double>(largest.bytes) * largest.seconds;
  if (update > 0.2) {
    out.push_back(absl::StrFormat(
        "an update of a Transformer-base (61 M parameters) takes %s for its gradients: "
        "trainer.wire_precision=bf16 halves that, a larger trainer.tokens_per_batch spreads it "
        "over "
        "more sentences",
        Seconds(update)));
  }
  for (const HostReport& host : report.hosts) {
    if (host.faster_interface.empty()) continue;
    out.push_back(absl::StrFormat(
        "host %s sends through %s (%d Mbit/s) though %s is faster: %s=%s mpirun", host.name,
        host.network_interface, host.interface_mbit, host.faster_interface,
        internal::InterfaceVariable(report.mpi), host.faster_interface));
  }
  if (!WatchesCables(report)) {
    const std::string late = "the launcher would notice a cut cable only after minutes";
    out.push_back(late + (report.mpi.starts_with("MPICH")
                              ? ", and MPICH's has no setting for that: ranks end after "
                                "run.comm_timeout, mpirun by hand"
                              : ": start jobs with contrib/dtrain-mpirun (see "
                                "docs/several-machines.md)"));
  }
}

void DiagnoseDisksAndClocks(const DoctorReport& report, Sentences& out) {
  for (const HostReport& host : report.hosts) {
    if (host.disk_bytes_per_second == 0.0) {
      out.push_back(
          absl::StrFormat("host %s cannot write the folder: a run directory must be on a "
                          "disk that all hosts see",
                          host.name));
    } else if (host.disk_bytes_per_second < 50e6) {
      out.push_back(
          absl::StrFormat("host %s writes %s: a checkpoint of a Transformer-base (731 MB) "
                          "takes %s; put run.run_dir on a faster disk or checkpoint less "
                          "often (trainer.checkpoint_every)",
                          host.name, Speed(host.disk_bytes_per_second),
                          Seconds(3 * kBaseGradientBytes / host.disk_bytes_per_second)));
    }
    if (std::abs(host.clock_offset) > 1.0) {
      out.push_back(absl::StrFormat(
          "the clock of host %s is %.1f s %s: set it (NTP), or times in "
          "its log will not match",
          host.name, std::abs(host.clock_offset), host.clock_offset > 0 ? "ahead" : "behind"));
    }
  }
}

void AppendHosts(const DoctorReport& report, std::string& text) {
  absl::StrAppendFormat(&text, "%-12s %5s %5s %7s %8s %11s %9s  %s\n", "host", "ranks", "cores",
                        "threads", "memory", "disk", "clock", "device");
  for (const HostReport& host : report.hosts) {
    absl::StrAppendFormat(&text, "%-12s %5d %5d %7d %4.0f GiB %11s %+7.1fms  %s\n", host.name,
                          host.ranks, host.cores, host.threads,
                          static_cast<double>(host.memory_bytes) / (1 << 30),
                          Speed(host.disk_bytes_per_second), host.clock_offset * 1e3, host.device);
  }
  for (const HostReport& host : report.hosts) {
    if (host.network_interface.empty()) continue;
    absl::StrAppend(&text, host.name, " sends through ", host.network_interface,
                    host.interface_mbit > 0 ? absl::StrFormat(" (%d Mbit/s)", host.interface_mbit)
                                            : std::string(),
                    "\n");
  }
}

}  // namespace

std::vector<std::string> Diagnose(const DoctorReport& report) {
  Sentences sentences;
  DiagnoseBuilds(report, sentences);
  DiagnoseCores(report, sentences);
  DiagnoseGpus(report, sentences);
  DiagnoseNetwork(report, sentences);
  DiagnoseDisksAndClocks(report, sentences);
  return sentences;
}

std::string DoctorText(const DoctorReport& report) {
  std::string text =
      absl::StrFormat("%d rank%s on %d host%s, MPI: %s\n%s\n\n", report.ranks,
                      report.ranks == 1 ? "" : "s", report.hosts.size(),
                      report.hosts.size() == 1 ? "" : "s", report.mpi, report.hosts.front().build);
  if (!report.nccl.empty()) absl::StrAppend(&text, "between GPUs: ", report.nccl, "\n\n");
  AppendHosts(report, text);
  if (!report.pairs.empty()) {
    absl::StrAppendFormat(&text, "\n%-25s %9s %12s\n", "two ranks on", "latency", "one way");
    for (const PairReport& pair : report.pairs) {
      absl::StrAppendFormat(
          &text, "%-25s %9s %12s\n",
          IsBetweenHosts(pair) ? absl::StrCat(pair.first, " and ", pair.second) : pair.first,
          Seconds(pair.latency_seconds), Speed(pair.bytes_per_second));
    }
  }
  if (!report.sweep.empty()) {
    absl::StrAppendFormat(&text, "\n%-12s %9s %14s\n", "allreduce", "time", "bus bandwidth");
    for (const AllReduceReport& line : report.sweep) {
      absl::StrAppendFormat(&text, "%-12s %9s %14s\n", Size(line.bytes), Seconds(line.seconds),
                            Speed(line.bus_bytes_per_second));
    }
  }
  absl::StrAppendFormat(
      &text, "\na rank adds in memory at %s, and multiplies for PowerSGD at %.1f GFLOP/s\n",
      Speed(report.memory_bytes_per_second), 1e-9 * report.low_rank_flops_per_second);
  absl::StrAppend(&text, KeepAlive(report));
  const Sentences sentences = Diagnose(report);
  absl::StrAppend(&text, "\n", sentences.empty() ? "nothing stands out\n" : "what stands out:\n");
  for (const std::string& sentence : sentences) absl::StrAppend(&text, "- ", sentence, "\n");
  return text;
}

std::string DoctorJson(const DoctorReport& report) {
  nlohmann::ordered_json json = {{"ranks", report.ranks},
                                 {"mpi", report.mpi},
                                 {"nccl", report.nccl},
                                 {"without_nccl", report.without_nccl},
                                 {"memory_bytes_per_second", report.memory_bytes_per_second},
                                 {"low_rank_flops_per_second", report.low_rank_flops_per_second}};
  // Absent if there are none, as JSON has no infinity.
  if (report.keep_alive_seconds && std::isfinite(*report.keep_alive_seconds)) {
    json["keep_alive_seconds"] = *report.keep_alive_seconds;
  }
  for (const HostReport& host : report.hosts) {
    json["hosts"].push_back({{"name", host.name},
                             {"build", host.build},
                             {"device", host.device},
                             {"without_cudnn", host.without_cudnn},
                             {"ranks", host.ranks},
                             {"cores", host.cores},
                             {"threads", host.threads},
                             {"memory_bytes", host.memory_bytes},
                             {"clock_offset_seconds", host.clock_offset},
                             {"disk_bytes_per_second", host.disk_bytes_per_second},
                             {"interface", host.network_interface},
                             {"interface_mbit", host.interface_mbit}});
  }
  json["pairs"] = nlohmann::ordered_json::array();
  for (const PairReport& pair : report.pairs) {
    json["pairs"].push_back({{"first", pair.first},
                             {"second", pair.second},
                             {"latency_seconds", pair.latency_seconds},
                             {"bytes_per_second", pair.bytes_per_second}});
  }
  json["allreduce"] = nlohmann::ordered_json::array();
  for (const AllReduceReport& line : report.sweep) {
    json["allreduce"].push_back({{"bytes", line.bytes},
                                 {"seconds", line.seconds},
                                 {"bus_bytes_per_second", line.bus_bytes_per_second}});
  }
  json["advice"] = Diagnose(report);
  return internal::JsonText(json);
}

}  // namespace dtrain
