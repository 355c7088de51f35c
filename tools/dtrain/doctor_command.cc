// doctor_command.cc - `mpirun ... dtrain doctor`: hosts, network, disk and clocks, with a verdict.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>

#include "dtrain/base/file.h"
#include "dtrain/config/flag_set.h"
#include "planning/doctor.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/run_command.h"
#include "tools/dtrain/translation_flags.h"

namespace dtrain {

int DoctorCommand(int argc, char** argv) {
  DoctorOptions options;
  int64_t largest_mib = options.largest_bytes >> 20;
  bool json = false;
  std::string output;
  FlagSet set("mpirun -n 4 -H a:2,b:2 dtrain doctor [FLAGS]",
              "measures hosts, network, disk and clocks of a job and says what would help");
  set.Add("dir", "folder whose disk is measured: where run directories will be",
          &options.directory);
  set.Add("largest_mib", "largest allreduce, MiB", &largest_mib);
  set.Add("json", "print one JSON line: bytes, seconds", &json);
  set.Add("output", "also write that line to this file, for dtrain plan --doctor", &output);
  Status parsed = set.ParseAll(argc, argv);
  if (parsed.ok()) parsed = CheckRange("largest_mib", largest_mib, 1, 4096);
  options.largest_bytes = largest_mib << 20;
  return RunCommand(argc, argv, set, parsed, {}, [&](Runtime& runtime) -> Status {
    DT_ASSIGN_OR_RETURN(const DoctorReport report, ExamineJob(options, runtime));
    if (!runtime.comm.is_root()) return OkStatus();
    const std::string text = json ? DoctorJson(report) + "\n" : DoctorText(report);
    std::fputs(text.c_str(), stdout);
    return output.empty() ? OkStatus() : WriteFileAtomically(output, DoctorJson(report) + "\n");
  });
}

}  // namespace dtrain
