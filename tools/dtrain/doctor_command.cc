// doctor_command.cc - `mpirun ... dtrain doctor`: hosts, network, disk and clocks, with a verdict.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>

#include "dtrain/base/file.h"
#include "dtrain/config/flag_set.h"
#include "planning/doctor.h"
#include "planning/doctor_hosts.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/run_command.h"
#include "tools/dtrain/translation_flags.h"

namespace dtrain {
namespace {

// Then hosts are tried for up to 7 s.
constexpr double kStartSeconds = 15;

}  // namespace

int DoctorCommand(int argc, char** argv) {
  DoctorOptions options;
  int64_t largest_mib = options.largest_bytes >> 20;
  bool json = false;
  std::string output;
  std::string hosts;
  int64_t launcher = 0;
  FlagSet set("mpirun -n 4 -H a:2,b:2 dtrain doctor [FLAGS], or dtrain doctor --hosts=a,b",
              "measures hosts, network, disk and clocks of a job and says what would help");
  set.Add("hosts", "without mpirun, where that hangs: say which of these hosts this one reaches",
          &hosts);
  set.Add("dir", "folder whose disk is measured: where run directories will be",
          &options.directory);
  set.Add("largest_mib", "largest allreduce, MiB", &largest_mib);
  set.Add("json", "print one JSON line: bytes, seconds", &json);
  set.Add("output", "also write that line to this file, for dtrain plan --doctor", &output);
  set.Add("watch", "process of an mpirun: warn of unreachable hosts if it starts no ranks",
          &launcher);
  Status parsed = set.ParseAll(argc, argv);
  if (parsed.ok()) parsed = CheckRange("largest_mib", largest_mib, 1, 4096);
  options.largest_bytes = largest_mib << 20;
  return RunCommand(argc, argv, set, parsed, {}, [&](Runtime& runtime) -> Status {
    if (launcher > 0) {
      WatchLaunch(static_cast<pid_t>(launcher), kStartSeconds);
      return OkStatus();
    }
    if (!hosts.empty()) return runtime.comm.is_root() ? ExamineHosts(HostsIn(hosts)) : OkStatus();
    DT_ASSIGN_OR_RETURN(const DoctorReport report, ExamineJob(options, runtime));
    if (!runtime.comm.is_root()) return OkStatus();
    const std::string text = json ? DoctorJson(report) + "\n" : DoctorText(report);
    std::fputs(text.c_str(), stdout);
    return output.empty() ? OkStatus() : WriteFileAtomically(output, DoctorJson(report) + "\n");
  });
}

}  // namespace dtrain
