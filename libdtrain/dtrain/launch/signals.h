// signals.h - signals become flags: USR1 checkpoint, USR2 timeline, TERM, INT and HUP stop.
// SPDX-License-Identifier: Apache-2.0
//
// mpirun passes USR1 and USR2 on to all ranks. On TERM or INT it kills the ranks after about a
// second: to stop a job under mpirun, send TERM to one of its ranks, which tells the others.
// srun forwards TERM and waits.
#ifndef DTRAIN_LAUNCH_SIGNALS_H_
#define DTRAIN_LAUNCH_SIGNALS_H_

#include "dtrain/base/stop_flags.h"

namespace dtrain {

// Once per process and before it has threads: blocks these signals in this thread and all that it
// starts; a thread of its own takes them. No handler ever runs: matrix products of the CPU use
// their stack pointer for other memory, which a handler's frame would overwrite. TERM, INT and HUP
// end the process, as they do by default; one that is ignored (HUP under nohup,
// INT behind a script's &) stays so.
void WatchSignals();

// From here on TERM, INT and HUP set the flags instead; an INT after one of them still ends the
// process. For who looks at the flags.
StopFlags& TakeStopRequests();

// From here on TERM ends the process at once: it is no request any more. On the main thread.
void EndByTermFromHere();

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_SIGNALS_H_
