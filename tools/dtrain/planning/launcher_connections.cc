// launcher_connections.cc - reads a process's sockets and their timers below /proc.
// SPDX-License-Identifier: Apache-2.0
#include "planning/launcher_connections.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dtrain {
namespace {

// Columns of /proc/net/tcp (Linux, Documentation/networking/proc_net_tcp.rst).
constexpr size_t kPeer = 2;
constexpr size_t kState = 3;
constexpr size_t kTimer = 5;
constexpr size_t kInode = 9;
constexpr std::string_view kEstablished = "01";
constexpr std::string_view kKeepAliveTimer = "02:";
constexpr double kTicksPerSecond = 100;  // of the times that the kernel shows to programs

// The numbers of the process's sockets.
std::set<std::string> SocketsOf(const std::string& process) {
  std::set<std::string> sockets;
  std::error_code error;
  for (std::filesystem::directory_iterator file(process + "/fd", error), end; !error && file != end;
       file.increment(error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(file->path(), gone);
    constexpr std::string_view kPrefix = "socket:[";
    if (target.starts_with(kPrefix)) {
      sockets.insert(target.substr(kPrefix.size(), target.size() - kPrefix.size() - 1));
    }
  }
  return sockets;
}

// Addresses are hexadecimal, in the machine's byte order: 127.x.y.z ends with 7F on x86 and ARM.
bool IsLoopback(std::string_view peer) {
  const std::string_view address = peer.substr(0, peer.find(':'));
  if (address.size() == 8) return address.ends_with("7F");
  const bool is_mapped = address.substr(0, 24) == "0000000000000000FFFF0000";
  return address == "00000000000000000000000001000000" || (is_mapped && address.ends_with("7F"));
}

// "02:000000E5": a timer and the ticks that it has left.
double SecondsLeft(std::string_view timer) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (!timer.starts_with(kKeepAliveTimer)) return kNever;
  uint32_t ticks = 0;
  const char* const end = timer.data() + timer.size();
  const auto [rest, error] = std::from_chars(timer.data() + kKeepAliveTimer.size(), end, ticks, 16);
  return error == std::errc() && rest == end ? ticks / kTicksPerSecond : kNever;
}

}  // namespace

std::optional<double> SecondsToKeepAlive(pid_t launcher, const std::string& proc) {
  const std::string process = absl::StrCat(proc, "/", launcher);
  const std::set<std::string> sockets = SocketsOf(process);
  std::optional<double> longest;
  for (const char* const table : {"/net/tcp", "/net/tcp6"}) {
    std::ifstream file(process + table);
    std::string line;
    while (std::getline(file, line)) {
      const std::vector<std::string> columns = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (columns.size() <= kInode || columns[kState] != kEstablished ||
          IsLoopback(columns[kPeer]) || !sockets.contains(columns[kInode])) {
        continue;
      }
      longest = std::max(longest.value_or(0), SecondsLeft(columns[kTimer]));
    }
  }
  return longest;
}

}  // namespace dtrain
