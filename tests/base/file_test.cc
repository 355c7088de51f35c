// file_test.cc - files written all or nothing, read whole, mapped; and what errors say.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "dtrain/base/crc.h"
#include "dtrain/base/file_lock.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

std::string Numbers(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('0' + i % 10);
  return text;
}

TEST_CASE("small and large writes reach the file in order, with their checksum") {
  const TemporaryFolder folder;
  // Around the size of the buffer.
  const size_t bytes =
      GENERATE(size_t{0}, size_t{1}, (size_t{1} << 20) - 1, size_t{1} << 20, (size_t{5} << 19) + 3);
  const std::string path = folder.File("file");
  StatusOr<AtomicFile> file = AtomicFile::Create(path);
  REQUIRE(file.ok());
  const std::string large = Numbers(bytes);
  REQUIRE(file->Write("head").ok());
  REQUIRE(file->Write(large).ok());
  REQUIRE(file->Write("tail").ok());
  CHECK(file->size() == static_cast<int64_t>(bytes) + 8);
  CHECK(file->crc32c() == Crc32c("head" + large + "tail"));
  REQUIRE(file->Commit().ok());
  CHECK(ReadTestFile(path) == "head" + large + "tail");
}

TEST_CASE("the start of a file can be written last") {
  const TemporaryFolder folder;
  StatusOr<AtomicFile> file = AtomicFile::Create(folder.File("file"));
  REQUIRE(file.ok());
  REQUIRE(file->Write("????body").ok());
  REQUIRE(file->WriteAtStart(std::as_bytes(std::span("HEAD", 4))).ok());
  REQUIRE(file->Write("more").ok());
  REQUIRE(file->Commit().ok());
  CHECK(ReadTestFile(folder.File("file")) == "HEADbodymore");
}

TEST_CASE("a file that is not committed leaves what was there") {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("file"), "old");
  {
    StatusOr<AtomicFile> file = AtomicFile::Create(folder.File("file"));
    REQUIRE(file.ok());
    REQUIRE(file->Write("new").ok());
    AtomicFile moved = *std::move(file);
    REQUIRE(moved.Write("er").ok());
  }
  CHECK(ReadTestFile(folder.File("file")) == "old");
  const std::filesystem::directory_iterator files(folder.path());
  CHECK(std::distance(begin(files), end(files)) == 1);
}

TEST_CASE("a full disk is a storage error that says so, and the old file stays") {
  const TemporaryFolder folder;
  const std::string path = folder.File("file");
  WriteTestFile(path, "old");
  Status status;
  {
    const FileSizeLimit limit(4096);
    status = WriteFileAtomically(path, Numbers(10000));
  }
  CHECK(status.code() == ExitCode::kStorage);
  CHECK(status.message() ==
        path + ": cannot write: File too large; raise the limit on file sizes (ulimit -f)");
  CHECK(ReadTestFile(path) == "old");
}

TEST_CASE("a link and a device stay what they are") {
  const TemporaryFolder folder;
  const std::string target = folder.Write("target", "old");
  REQUIRE(std::filesystem::create_directory(folder.File("sub")));
  std::filesystem::create_symlink("../target", folder.File("sub/link"));
  REQUIRE(WriteFileAtomically(folder.File("sub/link"), "new").ok());
  CHECK(std::filesystem::is_symlink(folder.File("sub/link")));
  CHECK(ReadTestFile(target) == "new");
  std::filesystem::create_symlink("missing", folder.File("dangling"));
  REQUIRE(WriteFileAtomically(folder.File("dangling"), "here").ok());
  CHECK(ReadTestFile(folder.File("missing")) == "here");
  std::filesystem::create_symlink("/dev/null", folder.File("null"));
  REQUIRE(WriteFileAtomically(folder.File("null"), "gone").ok());
  CHECK(std::filesystem::is_character_file(folder.File("null")));
  CHECK_FALSE(WriteFileAtomically("/dev/full", "text").ok());
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("a path that cannot be used is named with the reason") {
  const TemporaryFolder folder;
  const std::string missing = folder.File("no/such/file");
  const std::string reason = "No such file or directory; check the path";
  CHECK(AtomicFile::Create(missing).status().message() == missing + ": cannot create: " + reason);
  CHECK_THAT(std::string(AtomicFile::Create(folder.path()).status().message()),
             Catch::StartsWith(folder.path() + ": cannot create: is a folder; name a file in it"));
  CHECK(ReadWholeFile(missing).status().message() == missing + ": cannot open: " + reason);
  CHECK(MappedFile::Open(missing).status().message() == missing + ": cannot open: " + reason);
  CHECK(MappedFile::Open(folder.path()).status().message() ==
        folder.path() + ": not a regular file; check the path");
  CHECK(SyncDirectory(missing).code() == ExitCode::kStorage);
}

TEST_CASE("a file reads and maps as it was written") {
  const TemporaryFolder folder;
  const std::string content = GENERATE(std::string(), Numbers(70000));
  WriteTestFile(folder.File("file"), content);
  CHECK(ReadWholeFile(folder.File("file")).value() == content);
  StatusOr<MappedFile> mapped = MappedFile::Open(folder.File("file"));
  REQUIRE(mapped.ok());
  const MappedFile moved = *std::move(mapped);
  const auto bytes = moved.bytes();
  CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == content);
}

TEST_CASE("a link is replaced in one step, and folders are made with their parents") {
  const TemporaryFolder folder;
  REQUIRE(MakeDirectories(folder.File("a/b")).ok());
  REQUIRE(MakeDirectories(folder.File("a/b")).ok());
  for (const char* target : {"a", "a/b"}) {
    REQUIRE(ReplaceLink(target, folder.File("link")).ok());
    CHECK(std::filesystem::read_symlink(folder.File("link")) == target);
  }
  CHECK(ParentOf("dir/name") == "dir");
  CHECK(ParentOf("name") == ".");
}

TEST_CASE("a pipe, a device or a folder in place of a file is refused at once") {
  const TemporaryFolder folder;
  const std::string pipe = folder.File("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::string device = folder.File("device");
  std::filesystem::create_symlink("/dev/zero", device);
  for (const std::string& path : {pipe, device, folder.path()}) {
    CHECK(ReadWholeFile(path).status().message() == path + ": not a regular file; check the path");
    CHECK(MappedFile::Open(path).status().message() ==
          path + ": not a regular file; check the path");
  }
}

TEST_CASE("a file beyond the limit is refused before it is read") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("file", "12345");
  CHECK(*ReadWholeFile(path, 5) == "12345");
  CHECK_THAT(std::string(ReadWholeFile(path, 4).status().message()),
             Catch::Contains("is it the right file?"));
  std::filesystem::resize_file(path, uintmax_t{1} << 40);  // a hole: nothing is written
  CHECK(ReadWholeFile(path).status().code() == ExitCode::kStorage);
}

TEST_CASE("a lock keeps others out until it is given back, and its file can go with it") {
  const TemporaryFolder folder;
  const std::string path = folder.File("lock");
  StatusOr<std::optional<FileLock>> first = FileLock::Try(path);
  REQUIRE(first.ok());
  REQUIRE(*first);
  const StatusOr<std::optional<FileLock>> second = FileLock::Try(path);
  REQUIRE(second.ok());
  CHECK_FALSE(*second);
  std::atomic<bool> has_it = false;
  std::thread waiting([&] {
    const StatusOr<FileLock> lock = FileLock::Wait(path);
    has_it = lock.ok();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(has_it);
  (*first)->RemoveFile();
  waiting.join();
  CHECK(has_it);
  CHECK(std::filesystem::exists(path));  // made by the one that waited
  const StatusOr<std::optional<FileLock>> third = FileLock::Try(path);
  REQUIRE(third.ok());
  CHECK(*third);
  CHECK_THAT(std::string(FileLock::Try(folder.File("none/lock")).status().message()),
             Catch::Contains("none/lock: cannot create"));
}

}  // namespace
}  // namespace dtrain
