// signals.cc - one thread waits for the signals that all others block.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/signals.h"

#include <atomic>
#include <csignal>
#include <thread>

namespace dtrain {
namespace {

// The thread is there to the end of the process, and so are these.
StopFlags flags;
std::atomic<bool> takes_requests = false;

void Unblock(int signal) {
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
}

void EndBy(int signal) {
  Unblock(signal);
  std::raise(signal);
}

void Watch(const sigset_t& signals) {
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    switch (signal) {
      case SIGUSR1:
        flags.checkpoint = true;
        break;
      case SIGUSR2:
        flags.timeline = true;
        break;
      default:
        if (!takes_requests || (flags.stop.exchange(true) && signal == SIGINT)) EndBy(signal);
    }
  }
}

bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void WatchSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
  // A blocked signal would arrive although it is ignored.
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    if (!IsIgnored(signal)) sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] { Watch(signals); }).detach();
  // A limit on file sizes is met as an error of write(), like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
}

StopFlags& TakeStopRequests() {
  takes_requests = true;
  return flags;
}

void EndByTermFromHere() {
  takes_requests = false;
  Unblock(SIGTERM);
}

}  // namespace dtrain
