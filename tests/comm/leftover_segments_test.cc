// leftover_segments_test.cc - shared memory of dead jobs goes, that of anybody else stays.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/leftover_segments.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain::internal {
namespace {

namespace fs = std::filesystem;

// A segment as Open MPI leaves one, written so long ago.
std::string Segment(const TemporaryFolder& folder, const std::string& name, int age_seconds) {
  const std::string path = folder.Write(name, std::string(100, 's'));
  timespec times[2] = {};
  ::clock_gettime(CLOCK_REALTIME, &times[1]);
  times[1].tv_sec -= age_seconds;
  times[0] = times[1];
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  return path;
}

TEST_CASE("segments that no process has mapped are removed, and others stay") {
  const TemporaryFolder folder;
  const std::string dead = Segment(folder, "vader_segment.host.0.211e0001.0", 1000);
  const std::string short_name = Segment(folder, "vader_segment.host.0.211e0001.1", 1000);
  const std::string of_5 = Segment(folder, "sm_segment.host.0.70a70001.0", 1000);  // Open MPI 5
  const std::string young = Segment(folder, "vader_segment.host.0.99990001.0", 1);
  const std::string other_host = Segment(folder, "vader_segment.host2.0.211e0001.0", 1000);
  const std::string other_file = Segment(folder, "my_segment.host.0", 1000);
  const std::string target = Segment(folder, "target", 1000);
  fs::create_symlink(target, folder.File("vader_segment.host.0.1.1"));
  const LeftoverSegments removed = RemoveLeftoverSegments(folder.path(), "host.example.org", 60);
  CHECK(removed.count == 3);
  CHECK(removed.bytes == 300);
  CHECK_FALSE(fs::exists(dead));
  CHECK_FALSE(fs::exists(short_name));
  CHECK_FALSE(fs::exists(of_5));
  for (const std::string& kept : {young, other_host, other_file, target}) CHECK(fs::exists(kept));
}

TEST_CASE("a segment that a running process has mapped stays until it ends") {
  const TemporaryFolder folder;
  const std::string path = Segment(folder, "vader_segment.host.0.1.0", 1000);
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t rank = ::fork();
  if (rank == 0) {
    const int file = ::open(path.c_str(), O_RDWR);
    void* const memory = ::mmap(nullptr, 100, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    const char byte = memory == MAP_FAILED ? 'f' : 'm';
    static_cast<void>(::write(ready[1], &byte, 1) + 1);
    for (;;) ::pause();
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  REQUIRE(byte == 'm');
  CHECK(RemoveLeftoverSegments(folder.path(), "host", 60).count == 0);
  CHECK(fs::exists(path));
  ::kill(rank, SIGKILL);
  ::waitpid(rank, nullptr, 0);
  CHECK(RemoveLeftoverSegments(folder.path(), "host", 60).count == 1);
  CHECK_FALSE(fs::exists(path));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("a folder that is not there has no segments") {
  CHECK(RemoveLeftoverSegments("/nowhere", "host", 0).count == 0);
}

}  // namespace
}  // namespace dtrain::internal
