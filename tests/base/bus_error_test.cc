// bus_error_test.cc - how a process ends that reads a mapped file which became shorter.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/bus_error.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "dtrain/base/file.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

constexpr size_t kBytes = 100000;

struct Ended {
  int code = -1;  // 128 + the signal where one ended it
  std::string text;
};

// A process of its own, with the handler; its stderr.
Ended RunInChild(const std::function<void()>& body) {
  const TemporaryFolder folder;
  const std::string output = folder.File("stderr");
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(::open(output.c_str(), O_CREAT | O_WRONLY, 0600), STDERR_FILENO);
    ReportShrunkFiles();
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), ReadTestFile(output)};
}

// Truncates the file and reads where it was.
void ReadBehindEnd(const std::string& path, const std::byte* data) {
  if (::truncate(path.c_str(), 10) != 0) ::_exit(1);
  static_cast<void>(*static_cast<const volatile std::byte*>(data + kBytes - 1));
}

TEST_CASE("a mapped file that became shorter is named, and the exit code is that of storage") {
  const TemporaryFolder folder;
  // Longer than what is kept of it.
  const std::string path = folder.File(std::string(200, 'a') + "/" + std::string(200, 'b') + "/" +
                                       std::string(200, 'c') + ".bin");
  REQUIRE(MakeDirectories(ParentOf(path)).ok());
  for (const std::string& file : {folder.File("short.bin"), path}) {
    WriteTestFile(file, std::string(kBytes, 'x'));
    WriteTestFile(folder.File("other"), std::string(kBytes, 'y'));
    const Ended ended = RunInChild([&] {
      const MappedFile other = *MappedFile::Open(folder.File("other"));
      const MappedFile mapped = *MappedFile::Open(file);
      const MappedFile last = *MappedFile::Open(folder.File("other"));
      ReadBehindEnd(file, mapped.bytes().data());
    });
    CHECK(ended.code == 7);
    CHECK_THAT(ended.text, Catch::StartsWith("dtrain: error[E7]: "));
    CHECK_THAT(ended.text,
               Catch::Contains(file.substr(file.size() - std::min<size_t>(file.size(), 512)) +
                               ": became shorter while it was read, or could not be read"));
    CHECK_THAT(ended.text, Catch::EndsWith("(see docs/errors.md#e7)\n"));
  }
}

TEST_CASE("another bus error ends a process as it always did") {
  const TemporaryFolder folder;
  const std::string path = folder.File("file");
  WriteTestFile(path, std::string(kBytes, 'x'));
  const auto map = [&] {
    const int file = ::open(path.c_str(), O_RDONLY);
    return static_cast<const std::byte*>(::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, file, 0));
  };
  const Ended unknown = RunInChild([&] { ReadBehindEnd(path, map()); });
  CHECK(unknown.code == 128 + SIGBUS);
  CHECK(unknown.text.empty());
  const Ended sent = RunInChild([&] {
    const MappedFile mapped = *MappedFile::Open(path);
    ::raise(SIGBUS);
  });
  CHECK(sent.code == 128 + SIGBUS);
  for (const int code : {BUS_MCEERR_AR, BUS_MCEERR_AO}) {
    const Ended broken = RunInChild([&] {
      const MappedFile mapped = *MappedFile::Open(path);
      siginfo_t info{};
      info.si_signo = SIGBUS;
      info.si_code = code;
      info.si_addr = const_cast<std::byte*>(mapped.bytes().data());
      ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::syscall(SYS_gettid), SIGBUS, &info);
    });
    CHECK(broken.code == 128 + SIGBUS);
    CHECK_THAT(broken.text, Catch::StartsWith("dtrain: the machine reports broken memory"));
    CHECK_THAT(broken.text, !Catch::Contains(path));
  }
}

TEST_CASE("what is mapped no more is not named") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("file"), std::string(kBytes, 'x'));
  const Ended ended = RunInChild([&] {
    const std::byte* where = nullptr;
    {
      // More, one after the other, than are known at a time.
      for (int i = 0; i < 100; ++i) {
        const MappedFile mapped = *MappedFile::Open(folder.File("file"));
        where = mapped.bytes().data();
      }
    }
    const int file = ::open(folder.File("file").c_str(), O_RDONLY);
    const void* const again =
        ::mmap(const_cast<std::byte*>(where), kBytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
    ReadBehindEnd(folder.File("file"), static_cast<const std::byte*>(again));
  });
  CHECK(ended.code == 128 + SIGBUS);
  CHECK(ended.text.empty());
}

}  // namespace
}  // namespace dtrain
