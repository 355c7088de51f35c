// launcher_connections_test.cc - keep-alive timers of a process, read from a folder like /proc.
// SPDX-License-Identifier: Apache-2.0
#include "planning/launcher_connections.h"

#include <filesystem>
#include <limits>
#include <string>

#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

// A process 7 with the sockets 101, 102 and 103, and these lines in its table of connections.
class FakeProc {
 public:
  explicit FakeProc(const std::string& lines) {
    std::filesystem::create_directories(folder_.File("7/fd"));
    std::filesystem::create_directories(folder_.File("7/net"));
    for (const char* const number : {"101", "102", "103"}) {
      std::filesystem::create_symlink(std::string("socket:[") + number + "]",
                                      folder_.File(std::string("7/fd/") + number));
    }
    WriteTestFile(
        folder_.File("7/net/tcp"),
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid "
        " timeout inode\n" +
            lines);
  }
  std::optional<double> Seconds() const { return SecondsToKeepAlive(7, folder_.File("")); }

 private:
  TemporaryFolder folder_;
};

std::string Line(const std::string& peer, const std::string& state, const std::string& timer,
                 const std::string& socket) {
  return "   0: 0A00A8C0:9A75 " + peer + " " + state + " 00000000:00000000 " + timer +
         " 00000000     0        0 " + socket + " 2 0000000000000000 20 4 30 10 -1\n";
}

TEST_CASE("the connection to another host with the longest time to its probe counts") {
  const FakeProc proc(Line("02004D0A:C001", "01", "02:0000012C", "101") +  // 3 s
                      Line("03004D0A:C001", "01", "02:00000064", "102"));  // 1 s
  CHECK(proc.Seconds() == 3);
}

TEST_CASE("a connection without keep-alive probes never notices a cut cable") {
  const FakeProc proc(Line("02004D0A:C001", "01", "02:0000012C", "101") +
                      Line("03004D0A:C001", "01", "00:00000000", "102"));
  CHECK(proc.Seconds() == std::numeric_limits<double>::infinity());
}

TEST_CASE("loopback, listening sockets and those of other processes do not count") {
  const FakeProc proc(Line("0100007F:C001", "01", "00:00000000", "101") +
                      Line("00000000:0000", "0A", "00:00000000", "102") +
                      Line("02004D0A:C001", "01", "00:00000000", "999"));
  CHECK(proc.Seconds() == std::nullopt);
}

TEST_CASE("a process that is not there has no connections") {
  CHECK(SecondsToKeepAlive(1, "/no/such/folder") == std::nullopt);
}

}  // namespace
}  // namespace dtrain
