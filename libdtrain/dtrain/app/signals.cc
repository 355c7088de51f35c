// signals.cc - handlers that only set flags.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/signals.h"

#include <csignal>

namespace dtrain {
namespace {

static_assert(std::atomic<bool>::is_always_lock_free, "handlers may touch nothing else");

// Handlers take no argument of ours, so what they set lives as long as the process.
StopFlags flags;

void Handle(int signal) {
  switch (signal) {
    case SIGUSR1:
      flags.checkpoint = true;
      break;
    case SIGUSR2:
      flags.timeline = true;
      break;
    case SIGINT:
      // The second one meets the default action.
      if (flags.stop.exchange(true)) {
        std::signal(SIGINT, SIG_DFL);
        std::raise(SIGINT);
      }
      break;
    default:
      flags.stop = true;
  }
}

}  // namespace

StopFlags& InstallSignalHandlers() {
  struct sigaction action = {};
  action.sa_handler = Handle;
  sigemptyset(&action.sa_mask);
  // Reads and writes in progress go on: a half-written checkpoint helps nobody.
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT}) {
    sigaction(signal, &action, nullptr);
  }
  // A limit on file sizes is met as an error of write(), like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  return flags;
}

}  // namespace dtrain
