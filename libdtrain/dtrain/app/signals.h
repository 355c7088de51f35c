// signals.h - signals become flags: USR1 checkpoint, USR2 timeline, TERM and INT stop.
// SPDX-License-Identifier: Apache-2.0
//
// mpirun passes USR1 and USR2 on to all ranks. On TERM or INT it kills the ranks after about a
// second unless OMPI_MCA_odls_base_sigkill_timeout (seconds) is set: to save a run under mpirun,
// send USR1 first. srun forwards TERM and waits.
#ifndef DTRAIN_APP_SIGNALS_H_
#define DTRAIN_APP_SIGNALS_H_

#include "dtrain/base/stop_flags.h"

namespace dtrain {

// Installs the handlers, once per process, and returns the flags they set. The handlers do nothing
// else; a second INT ends the process at once.
StopFlags& InstallSignalHandlers();

}  // namespace dtrain

#endif  // DTRAIN_APP_SIGNALS_H_
