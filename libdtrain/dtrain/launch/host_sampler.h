// host_sampler.h - samples of a host while a run trains on it: processors, memory, disks, networks.
// SPDX-License-Identifier: Apache-2.0
//
//   const std::unique_ptr<HostSampler> sampler =
//       HostSampler::Start(RecordsPath(run, recorded::kHost), {{.rank = 0, .process = getpid()}});
//
// A sample reads a few files of /proc, which takes about 0.1 ms of one core. What a system does not
// tell is left out.
#ifndef DTRAIN_LAUNCH_HOST_SAMPLER_H_
#define DTRAIN_LAUNCH_HOST_SAMPLER_H_

#include <sys/types.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dtrain/runs/metrics_log.h"

namespace dtrain {

// A rank on this host.
struct SampledRank {
  int rank = 0;
  pid_t process = 0;
};

// The host as it is now: a record with the fields of runs/record_names.h. `proc` is where /proc is.
JsonRecord SampleHost(const std::vector<SampledRank>& ranks, const std::string& proc = "/proc");

// Writes a sample at its start, every few seconds, and at its end.
class HostSampler {
 public:
  // Null if the file cannot be written: a run does without. Trouble later ends the samples.
  static std::unique_ptr<HostSampler> Start(const std::string& path, std::vector<SampledRank> ranks,
                                            double seconds = 5.0);
  HostSampler(const HostSampler&) = delete;
  HostSampler& operator=(const HostSampler&) = delete;
  ~HostSampler();

 private:
  HostSampler(MetricsLog log, std::vector<SampledRank> ranks, double seconds);
  void Loop();

  MetricsLog log_;
  std::vector<SampledRank> ranks_;
  double seconds_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_HOST_SAMPLER_H_
