// leftover_segments.cc - finds segments by name, and their users in /proc/PID/maps.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/leftover_segments.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace dtrain::internal {
namespace {

namespace fs = std::filesystem;

// Device and inode, as /proc/PID/maps has them.
using FileId = std::pair<dev_t, ino_t>;

// Some file systems (overlayfs) report other numbers in /proc than stat() does: paths help there.
struct MappedFiles {
  std::set<FileId> ids;
  std::set<std::string> paths;
};

struct Segment {
  std::string path;
  FileId id;
  int64_t bytes = 0;
};

// Host names in segments have no domain on some systems.
bool IsNamedForHost(std::string_view name, const std::string& host) {
  const std::string short_host = host.substr(0, host.find('.'));
  for (const std::string kind : {"vader_segment.", "sm_segment."}) {
    if (name.starts_with(kind + host + ".") || name.starts_with(kind + short_host + ".")) {
      return true;
    }
  }
  return false;
}

std::vector<Segment> OldSegments(const std::string& directory, const std::string& host,
                                 double min_age_seconds) {
  std::vector<Segment> segments;
  const std::time_t now = std::time(nullptr);
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (!IsNamedForHost(it->path().filename().string(), host)) continue;
    struct stat info = {};
    if (::lstat(it->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const bool is_old = static_cast<double>(now - info.st_mtime) >= min_age_seconds;
    if (info.st_uid != ::geteuid() || !is_old) continue;
    segments.push_back({it->path().string(), {info.st_dev, info.st_ino}, info.st_size});
  }
  return segments;
}

// Adds the files that a process has mapped. False where they cannot be read, though it runs.
bool AddMappedFiles(const std::string& process, MappedFiles& files) {
  std::ifstream maps(process + "/maps");
  if (!maps.is_open()) return errno == ENOENT || errno == ESRCH;
  for (std::string line; std::getline(maps, line);) {
    // "START-END rw-s OFFSET MAJOR:MINOR INODE    PATH", the device in hexadecimal.
    unsigned major = 0;
    unsigned minor = 0;
    unsigned long long inode = 0;
    if (std::sscanf(line.c_str(), "%*s %*s %*s %x:%x %llu", &major, &minor, &inode) == 3) {
      files.ids.insert({makedev(major, minor), inode});
    }
    const size_t path = line.find('/');
    if (path != std::string::npos) files.paths.insert(line.substr(path));
  }
  return true;
}

// Files mapped by the processes of this user; nothing where one of them cannot be examined.
std::optional<MappedFiles> FindMappedFiles() {
  MappedFiles files;
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // The first process of a container may be closed to all others. It is never a rank of a job.
    if (name == "1") continue;
    struct stat info = {};
    if (::stat(it->path().c_str(), &info) != 0 || info.st_uid != ::geteuid()) continue;
    if (!AddMappedFiles(it->path().string(), files)) return std::nullopt;
  }
  if (error) return std::nullopt;
  return files;
}

}  // namespace

LeftoverSegments RemoveLeftoverSegments(const std::string& directory, const std::string& host,
                                        double min_age_seconds) {
  LeftoverSegments removed;
  const std::vector<Segment> segments = OldSegments(directory, host, min_age_seconds);
  if (segments.empty()) return removed;
  const std::optional<MappedFiles> mapped = FindMappedFiles();
  if (!mapped) return removed;
  for (const Segment& segment : segments) {
    if (mapped->ids.contains(segment.id) || mapped->paths.contains(segment.path)) continue;
    if (::unlink(segment.path.c_str()) != 0) continue;
    ++removed.count;
    removed.bytes += segment.bytes;
  }
  return removed;
}

}  // namespace dtrain::internal
