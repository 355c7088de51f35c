// safetensors_test.cc - round trips, and every way a file can be damaged.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/formats/safetensors.h"

#include <cstdlib>
#include <cstring>

#include "dtrain/base/check.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/random.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

const std::vector<float> kFloats = {1, 2, 3, 4, 5, 6};
const std::vector<int64_t> kIntegers = {-7, 8};
const std::vector<uint8_t> kBytes = {9};

std::vector<NamedTensor> SomeTensors() {
  return {{"u", DType::kUint8, {1}, std::as_bytes(std::span(kBytes))},
          {"b.weight", DType::kFloat32, {2, 3}, std::as_bytes(std::span(kFloats))},
          {"a\"ü", DType::kInt64, {2}, std::as_bytes(std::span(kIntegers))},
          {"empty", DType::kFloat32, {0, 4}, {}},
          {"scalar", DType::kFloat32, {}, std::as_bytes(std::span(kFloats)).first(4)}};
}

// A file with this header and this many bytes of data.
std::string FileOf(std::string header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file + header + std::string(data_bytes, '\1');
}

Status StatusOf(const std::string& content) {
  const TemporaryFolder folder;
  WriteTestFile(folder.File("x.safetensors"), content);
  return SafetensorsFile::Open(folder.File("x.safetensors")).status();
}

// The message behind the path.
std::string Refusal(const std::string& content) {
  const Status status = StatusOf(content);
  REQUIRE(!status.ok());
  CHECK(status.code() == ExitCode::kStorage);
  const std::string message(status.message());
  const size_t path_end = message.find("x.safetensors: ");
  REQUIRE(path_end != std::string::npos);
  return message.substr(path_end + 15);
}

TEST_CASE("tensors come back as they were written") {
  const TemporaryFolder folder;
  const std::string path = folder.File("model.safetensors");
  const std::vector<NamedTensor> written = SomeTensors();
  const SafetensorsSummary summary = *WriteSafetensors(path, written, {{"step", "12"}});
  const SafetensorsFile file = *SafetensorsFile::Open(path);

  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}, {"step", "12"}});
  REQUIRE(file.tensors().size() == written.size());
  for (const NamedTensor& tensor : written) {
    const NamedTensor* const read = file.Find(tensor.name);
    REQUIRE(read != nullptr);
    CHECK(read->dtype == tensor.dtype);
    CHECK(read->shape == tensor.shape);
    CHECK(std::equal(read->data.begin(), read->data.end(), tensor.data.begin(), tensor.data.end()));
    CHECK(summary.tensor_crc32c.at(tensor.name) == Crc32c(tensor.data));
  }
  const std::string content = ReadTestFile(path);
  CHECK(summary.size == static_cast<int64_t>(content.size()));
  CHECK(summary.crc32c == Crc32c(content));
}

TEST_CASE("the file is laid out as the reference writer does") {
  const TemporaryFolder folder;
  const std::string path = folder.File("model.safetensors");
  REQUIRE(WriteSafetensors(path, SomeTensors()).ok());
  const std::string content = ReadTestFile(path);
  uint64_t length = 0;
  std::memcpy(&length, content.data(), sizeof(length));
  CHECK(length % 8 == 0);
  const std::string expected = R"({"__metadata__":{"format":"pt"},)"
                               R"("a\"ü":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
                               R"("b.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[16,40]},)"
                               R"("empty":{"dtype":"F32","shape":[0,4],"data_offsets":[40,40]},)"
                               R"("scalar":{"dtype":"F32","shape":[],"data_offsets":[40,44]},)"
                               R"("u":{"dtype":"U8","shape":[1],"data_offsets":[44,45]}})";
  CHECK(content.substr(8, expected.size()) == expected);
  CHECK(content.substr(8 + expected.size(), length - expected.size()).find_first_not_of(' ') ==
        std::string::npos);
  CHECK(content.size() == 8 + length + 45);
}

TEST_CASE("a file without tensors is valid") {
  const TemporaryFolder folder;
  REQUIRE(WriteSafetensors(folder.File("x"), {}).ok());
  CHECK(SafetensorsFile::Open(folder.File("x"))->tensors().empty());
  CHECK(StatusOf(FileOf("{}   ", 0)).ok());
}

TEST_CASE("all element types are written and BOOL is read") {
  const TemporaryFolder folder;
  std::vector<NamedTensor> tensors;
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16,
                            DType::kInt64, DType::kInt32, DType::kUint8}) {
    tensors.push_back({std::string(Name(dtype)),
                       dtype,
                       {2},
                       std::as_bytes(std::span(kIntegers)).first(2 * SizeOf(dtype))});
  }
  REQUIRE(WriteSafetensors(folder.File("x"), tensors).ok());
  const SafetensorsFile file = *SafetensorsFile::Open(folder.File("x"));
  for (const NamedTensor& tensor : tensors) CHECK(file.Find(tensor.name)->dtype == tensor.dtype);
  CHECK(StatusOf(FileOf(R"({"m":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 2)).ok());
}

TEST_CASE("a tensor of another model is refused by name, type and shape") {
  const TemporaryFolder folder;
  REQUIRE(WriteSafetensors(folder.File("x"), SomeTensors()).ok());
  const SafetensorsFile file = *SafetensorsFile::Open(folder.File("x"));
  const std::vector<int64_t> shape = {2, 3};
  const std::vector<int64_t> other = {3, 3};
  CHECK((*file.Get("b.weight", DType::kFloat32, shape))->data.size() == 24);
  CHECK(file.Get("c", DType::kFloat32, shape).status().message() ==
        folder.File("x") + ": no tensor 'c'; it belongs to another model");
  CHECK(file.Get("b.weight", DType::kFloat32, other).status().message() ==
        folder.File("x") +
            ": tensor 'b.weight' is float32 [2, 3], but the model needs float32 [3, 3]; use the "
            "configuration it was trained with");
  const Status status = file.Get("b.weight", DType::kBFloat16, shape).status();
  CHECK(status.code() == ExitCode::kStorage);
}

TEST_CASE("a missing file and a folder are refused") {
  const TemporaryFolder folder;
  const Status missing = SafetensorsFile::Open(folder.File("none")).status();
  CHECK(missing.code() == ExitCode::kStorage);
  CHECK(missing.message() ==
        folder.File("none") + ": cannot open: No such file or directory; check the path");
  CHECK(SafetensorsFile::Open(folder.path()).status().code() == ExitCode::kStorage);
}

TEST_CASE("damaged headers are refused with the reason") {
  CHECK(Refusal("") == "is empty; fetch it again");
  CHECK(Refusal("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n") ==
        "is a Git LFS pointer; run git lfs pull");
  CHECK(Refusal("\r\n<!DOCTYPE html><html>Not found</html>") ==
        "is a web page, not weights; fetch it again");
  CHECK(Refusal("<HTML lang=en>") == "is a web page, not weights; fetch it again");
  CHECK(Refusal("1234567") == "damaged: 7 bytes are too few for a safetensors file");
  CHECK(Refusal(std::string(8, '\xff')) ==
        "damaged or not a safetensors file: a header of 18446744073709551615 bytes in a file of 8");
  CHECK(Refusal(std::string("\x09\0\0\0\0\0\0\0{}", 10)) ==
        "damaged or not a safetensors file: a header of 9 bytes in a file of 10");
  CHECK(Refusal(FileOf("{\"a\":", 0)).starts_with("damaged: the header is not JSON: "));
  CHECK(Refusal(FileOf("{\"\xff\":1}", 0)).starts_with("damaged: the header is not JSON: "));
  CHECK(Refusal(FileOf("[]", 0)) == "damaged: the header is not an object");
  CHECK(Refusal(FileOf(R"({"__metadata__":1})", 0)) == "damaged: __metadata__ is not an object");
  CHECK(Refusal(FileOf(R"({"__metadata__":{"a":1}})", 0)) ==
        "damaged: __metadata__ 'a' is not a string");
  const std::string entry = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  CHECK(Refusal(FileOf("{" + entry + "," + entry + "}", 0)) ==
        "damaged: the header names 'a' twice");
}

TEST_CASE("what is long in a damaged header is cut in the message") {
  const std::string text(5'000'000, 'A');
  CHECK(Refusal(FileOf("{\"" + text, 0)).size() < 400);
  const std::string entry = R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  CHECK(Refusal(FileOf("{\"" + text + entry + "}", 0)) ==
        "damaged: a tensor's name has 5000000 characters: '" + text.substr(0, 300) + "...'");
  const std::string longest = text.substr(0, 4096);
  const TemporaryFolder folder;
  folder.Write("x", FileOf("{\"" + longest + entry + "}", 0));
  CHECK(SafetensorsFile::Open(folder.File("x")).ok());
  CHECK(Refusal(FileOf("{\"" + text + entry + ",\"" + text + entry + "}", 0)).size() < 400);
  CHECK(Refusal(FileOf("{\"__metadata__\":{\"" + text + "\":1}}", 0)).size() < 400);
  CHECK(Refusal(FileOf(R"({"a":{"dtype":")" + text + R"(","shape":[0],"data_offsets":[0,0]}})", 0))
            .size() < 500);
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  CHECK(Refusal(FileOf(R"({"a":{"dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,1]}})",
                       1)) == "damaged: tensor 'a': its shape has 65 extents");
}

TEST_CASE("damaged descriptions of tensors are refused with the reason") {
  const auto refusal = [](const std::string& entry, size_t bytes) {
    return Refusal(FileOf("{\"a\":" + entry + "}", bytes));
  };
  CHECK(refusal("1", 0) == "damaged: tensor 'a': its description is not an object");
  CHECK(refusal("{}", 0) == "damaged: tensor 'a': no dtype");
  CHECK(refusal(R"({"dtype":"F32"})", 0) == "damaged: tensor 'a': no shape");
  CHECK(refusal(R"({"dtype":"F32","shape":[1]})", 0) ==
        "damaged: tensor 'a': data_offsets are not two positions");
  CHECK(refusal(R"({"dtype":"F32","shape":[1],"data_offsets":[-1,3]})", 4) ==
        "damaged: tensor 'a': data_offsets are not two positions");
  CHECK(refusal(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4) ==
        "damaged: tensor 'a': its shape is not a list of sizes");
  CHECK(refusal(R"({"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]})", 1) ==
        "tensor 'a' has dtype F8_E4M3; convert it to F32, F16, BF16, F64, I64, I32, U8 or BOOL");
  CHECK(refusal(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4) ==
        "damaged: tensor 'a': data_offsets 0 to 4 do not fit F32 [2]");
  CHECK(refusal(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0) ==
        "damaged: tensor 'a': data_offsets 0 to 0 do not fit F32 [4294967296, 4294967296]");
}

TEST_CASE("holes, overlaps, missing and surplus bytes are refused") {
  const auto two = [](const std::string& second, size_t bytes) {
    return Refusal(FileOf(
        R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":)" + second + "}", bytes));
  };
  CHECK(two(R"({"dtype":"U8","shape":[2],"data_offsets":[5,7]})", 7) ==
        "damaged: tensor 'b' starts at byte 5, leaving a hole from byte 4");
  CHECK(two(R"({"dtype":"U8","shape":[2],"data_offsets":[2,4]})", 4) ==
        "damaged: tensor 'b' starts at byte 2, before the end of the one before it at byte 4");
  CHECK(two(R"({"dtype":"U8","shape":[2],"data_offsets":[4,6]})", 5) ==
        "damaged: the file is truncated: tensor 'b' ends at byte 6 of 5");
  CHECK(two(R"({"dtype":"U8","shape":[2],"data_offsets":[4,6]})", 9) ==
        "damaged: 3 bytes follow the last tensor");
}

TEST_CASE("no single damaged or missing byte crashes the reader") {
  const TemporaryFolder folder;
  REQUIRE(WriteSafetensors(folder.File("good"), SomeTensors()).ok());
  const std::string good = ReadTestFile(folder.File("good"));
  RandomStream random(RandomKey{.seed = 7});
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    bad[random.NextBelow(static_cast<uint32_t>(bad.size()))] =
        static_cast<char>(random.NextBelow(256));
    if (i % 4 == 0) bad.resize(random.NextBelow(static_cast<uint32_t>(bad.size())));
    WriteTestFile(folder.File("bad"), bad);
    const auto file = SafetensorsFile::Open(folder.File("bad"));
    if (!file.ok()) {
      REQUIRE(file.status().code() == ExitCode::kStorage);
    } else {
      REQUIRE(bad.size() == good.size());
    }
  }
}

TEST_CASE("names that occur twice and sizes that do not fit break the writer's contract") {
  const TemporaryFolder folder;
  std::vector<NamedTensor> tensors = SomeTensors();
  tensors.push_back(tensors[0]);
  CHECK_THROWS_AS(WriteSafetensors(folder.File("x"), tensors), CheckError);
  tensors.back() = {"v", DType::kFloat32, {3}, {}};
  CHECK_THROWS_AS(WriteSafetensors(folder.File("x"), tensors), CheckError);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a disk that fills up leaves the old file and no other") {
  const TemporaryFolder folder;
  const std::string path = folder.File("model.safetensors");
  REQUIRE(WriteSafetensors(path, SomeTensors()).ok());
  const std::string before = ReadTestFile(path);
  const std::vector<std::byte> large(size_t{1} << 20);
  const std::vector<NamedTensor> tensors = {
      {"large", DType::kUint8, {static_cast<int64_t>(large.size())}, large}};
  Status status;
  {
    const FileSizeLimit limit(64 << 10);
    status = WriteSafetensors(path, tensors).status();
  }
  CHECK(status.code() == ExitCode::kStorage);
  CHECK(status.message() ==
        path + ": cannot write: File too large; raise the limit on file sizes (ulimit -f)");
  CHECK(ReadTestFile(path) == before);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

// tests/integration/check_safetensors.py writes one file and reads the other.
TEST_CASE("a file of the reference implementation is copied", "[.exchange]") {
  const char* const directory = std::getenv("DTRAIN_SAFETENSORS_DIR");
  REQUIRE(directory != nullptr);
  const std::string folder = directory;
  const SafetensorsFile theirs = *SafetensorsFile::Open(folder + "/theirs.safetensors");
  REQUIRE(WriteSafetensors(folder + "/ours.safetensors", theirs.tensors(), theirs.metadata()).ok());
}

}  // namespace
}  // namespace dtrain
