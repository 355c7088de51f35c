// bus_error.cc - a table of the mapped files, and the SIGBUS handler that looks into it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/bus_error.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <mutex>

#include "dtrain/base/status.h"

namespace dtrain {
namespace {

constexpr size_t kPathBytes = 512;  // of a longer path, the last bytes are kept

struct Mapping {
  // Start address, or 0 if this entry is free. Written last and read first, so that the handler
  // never sees a half-written entry.
  std::atomic<uintptr_t> begin = 0;
  std::atomic<uintptr_t> end = 0;
  std::array<char, kPathBytes> path{};
  size_t path_size = 0;
};

// The table is never destroyed or locked by the handler: a signal handler may neither lock nor
// allocate.
std::array<Mapping, 64> mappings;
std::mutex writing;  // guards writes to the table; the handler only reads

// Writes one line to stderr without allocating.
void Say(std::initializer_list<std::string_view> parts) {
  std::array<char, kPathBytes + 256> line;
  char* end = line.data();
  for (const std::string_view part : parts) end = std::copy(part.begin(), part.end(), end);
  // A failed write is ignored: there is nothing else the handler could do.
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, line.data(), static_cast<size_t>(end - line.data()));
}

[[noreturn]] void EndNaming(std::string_view path) {
  Say({"dtrain: error[E7]: ", path,
       ": became shorter while it was read, or could not be read; make it again, and replace such "
       "files only by renaming new ones over them (see docs/errors.md#e7)\n"});
  ::_exit(static_cast<int>(ExitCode::kStorage));
}

// Runs on the stack of the thread that read, wherever its stack pointer points: matrix products on
// a CPU use the stack pointer for other memory. The frame overwrites data there, which is harmless
// because the process ends here.
void OnBusError(int signal, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  // The hardware lost a page of memory; the file on the disk is intact.
  const bool is_memory = info->si_code == BUS_MCEERR_AR || info->si_code == BUS_MCEERR_AO;
  if (is_memory)
    Say({"dtrain: the machine reports broken memory (SIGBUS); see its kernel's log\n"});
  for (const Mapping& mapping : mappings) {
    const uintptr_t begin = mapping.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= mapping.end) continue;
    if (is_memory || info->si_code <= 0) continue;
    EndNaming({mapping.path.data(), mapping.path_size});
  }
  // After the handler returns, the same access fails again and the default action ends the process.
  ::signal(signal, SIG_DFL);
  // A signal sent by a process, or an early report of the kernel, does not repeat by itself.
  if (is_memory || info->si_code <= 0) ::raise(signal);
}

}  // namespace

void ReportShrunkFiles() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

namespace internal {

void RememberMapping(const void* data, size_t size, std::string_view path) {
  const std::lock_guard lock(writing);
  const auto free =
      std::find_if(mappings.begin(), mappings.end(), [](const Mapping& m) { return m.begin == 0; });
  if (free == mappings.end()) return;
  path.remove_prefix(path.size() - std::min(path.size(), kPathBytes));
  std::memcpy(free->path.data(), path.data(), path.size());
  free->path_size = path.size();
  free->end = reinterpret_cast<uintptr_t>(data) + size;
  free->begin.store(reinterpret_cast<uintptr_t>(data), std::memory_order_release);
}

void ForgetMapping(const void* data) {
  const std::lock_guard lock(writing);
  for (Mapping& mapping : mappings) {
    if (mapping.begin == reinterpret_cast<uintptr_t>(data)) mapping.begin = 0;
  }
}

}  // namespace internal
}  // namespace dtrain
