// weight_file_test.cc - every way a file of weights can be damaged is refused with its reason.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/formats/weight_file.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/crc.h"
#include "testing/file_testing.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

const std::string kGoldens = testing::GoldenPath("pretrained/");

// ---- a writer of LevelDB tables, to damage them in ways no writer would -------------------------

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string Fixed32(uint32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
// A field of a protocol buffer: a number, or bytes.
std::string Field(uint64_t number, uint64_t value) { return Varint(number << 3) + Varint(value); }
std::string Field(uint64_t number, const std::string& bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + bytes;
}

using Entries = std::vector<std::pair<std::string, std::string>>;

// Entries share the beginnings of their keys.
std::string Block(const Entries& entries) {
  std::string block;
  std::string last;
  for (const auto& [key, value] : entries) {
    size_t shared = 0;
    while (shared < std::min(last.size(), key.size()) && last[shared] == key[shared]) ++shared;
    block += Varint(shared) + Varint(key.size() - shared) + Varint(value.size()) +
             key.substr(shared) + value;
    last = key;
  }
  return block + Fixed32(0) + Fixed32(1);  // one restart point
}

// A table with a block for each of `blocks`.
std::string Table(const std::vector<Entries>& blocks, char compression = 0) {
  std::string table;
  const auto append = [&](const std::string& block) {
    const std::string handle = Varint(table.size()) + Varint(block.size());
    const std::string checked = block + compression;
    table += checked + Fixed32(MaskedCrc32c(checked));
    return handle;
  };
  Entries index;
  for (const Entries& block : blocks) index.emplace_back(block.back().first, append(Block(block)));
  std::string footer = append(Block({}));
  footer += append(Block(index));
  footer.resize(40);
  return table + footer + "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
}

struct Variable {
  uint64_t offset = 0;
  uint64_t size = 8;
  std::vector<uint64_t> shape = {2};
  uint64_t type = 1;
  uint64_t shard = 0;
};
std::string EntryOf(const Variable& variable) {
  std::string shape;
  for (const uint64_t extent : variable.shape) shape += Field(2, Field(1, extent));
  return Field(1, variable.type) + Field(2, shape) + Field(3, variable.shard) +
         Field(4, variable.offset) + Field(5, variable.size) + Varint(6 << 3 | 5) + Fixed32(0);
}
const std::string kHeader = Field(1, 1) + Field(3, Field(1, 1));

std::string IndexOf(const std::vector<std::pair<std::string, Variable>>& variables) {
  Entries entries = {{"", kHeader}};
  for (const auto& [name, variable] : variables) entries.emplace_back(name, EntryOf(variable));
  return Table({entries});
}

// The message behind "PATH: ".
std::string Refusal(const Status& status) {
  REQUIRE(!status.ok());
  CHECK(status.code() == ExitCode::kStorage);
  const std::string message(status.message());
  return message.substr(message.find(": ") + 2);
}
std::string IndexRefusal(const std::string& bytes) {
  return Refusal(ParseTensorFlowIndex("x.index", bytes).status());
}
// Of a checkpoint with this index and a data file of that many bytes.
std::string CheckpointRefusal(const std::string& index, size_t data_bytes) {
  const TemporaryFolder folder;
  folder.Write("m.ckpt.index", index);
  folder.Write("m.ckpt.data-00000-of-00001", std::string(data_bytes, 'x'));
  return Refusal(WeightFile::Open(folder.File("m.ckpt")).status());
}

TEST_CASE("an index of several blocks, whose names share their beginnings, is read") {
  const std::string bytes =
      Table({{{"", Field(1, 2)}, {"bert/a", EntryOf({.offset = 16, .shape = {2, 3}, .shard = 1})}},
             {{"bert/ab", EntryOf({.shape = {}})}, {"bert/b", EntryOf({.type = 7})}}});
  const TensorFlowIndex index = *ParseTensorFlowIndex("x.index", bytes);
  CHECK(index.shards == 2);
  REQUIRE(index.entries.size() == 3);
  CHECK(index.entries[0].name == "bert/a");
  CHECK(index.entries[0].shape == std::vector<int64_t>{2, 3});
  CHECK(index.entries[0].offset == 16);
  CHECK(index.entries[0].shard == 1);
  CHECK(index.entries[1].name == "bert/ab");
  CHECK(index.entries[1].shape.empty());
  CHECK(index.entries[2].type == 7);
}

TEST_CASE("damaged indexes of TensorFlow checkpoints are refused with the reason") {
  CHECK(IndexRefusal("") == "damaged: 0 bytes are too few for an index");
  CHECK(IndexRefusal(std::string(100, 'x')).starts_with("damaged or not the index of a Tensor"));
  const std::string good = IndexOf({{"a", {}}});
  std::string flipped = good;
  flipped[5] = static_cast<char>(flipped[5] ^ 1);
  CHECK(IndexRefusal(flipped) == "damaged: the block at byte 0 fails its CRC32C");
  std::string far = good;
  far.replace(far.size() - 48, 10, std::string(9, '\xff') + '\1');  // handles beyond all bounds
  CHECK(IndexRefusal(far).starts_with("damaged: a block is beyond the end of the "));
  CHECK(IndexRefusal(Table({{{"", kHeader}}}, 1)).starts_with("its blocks are compressed"));
  CHECK(IndexRefusal(Table({{{"a", kHeader}}})) == "damaged: it does not begin with a header");
  CHECK(IndexRefusal(Table({})) == "damaged: it holds nothing");
  CHECK(IndexRefusal(Table({{{"", Field(1, 0)}}})).ends_with("header is not one of a checkpoint"));
  CHECK(IndexRefusal(Table({{{"", Field(2, 1)}}})) ==
        "written on a big-endian machine; convert it there");
  CHECK(IndexRefusal(IndexOf({{"a", {}}, {"a", {}}})) ==
        "damaged: 'a' follows 'a': names are not unique and in order");
  CHECK(IndexRefusal(IndexOf({{"b", {}}, {"a", {}}})) ==
        "damaged: 'a' follows 'b': names are not unique and in order");
  CHECK(IndexRefusal(Table({{{"", kHeader}, {"a", "\xff"}}})) ==
        "damaged: the description of 'a' does not parse");
  CHECK(IndexRefusal(IndexOf({{"a", {.shape = {uint64_t{1} << 63}}}})) ==
        "damaged: the description of 'a' does not parse");
  CHECK(IndexRefusal(Table({{{"", kHeader}, {"a", EntryOf({}) + Field(7, "s")}}}))
            .starts_with("'a' is a partitioned variable"));
  CHECK(IndexRefusal(Table({{{"", kHeader}, {std::string(5000, 'n'), EntryOf({})}}}))
            .starts_with("damaged: an entry of the block at byte "));
}

TEST_CASE("no cut and no flipped bit of an index crashes its reader or changes what it says") {
  const std::string path = kGoldens + "tensorflow/bert_model.ckpt.index";
  const std::string good = ReadTestFile(path);
  const TensorFlowIndex expected = *ParseTensorFlowIndex(path, good);
  CHECK(expected.entries.size() == 46);
  for (size_t i = 0; i < good.size(); ++i) {
    CHECK_FALSE(ParseTensorFlowIndex(path, good.substr(0, i)).ok());
    for (const int bit : {0, 3, 7}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
      const auto index = ParseTensorFlowIndex(path, bad);
      if (!index.ok()) continue;  // else a byte that nobody reads: padding, the empty metaindex
      REQUIRE(index->entries.size() == expected.entries.size());
      for (size_t e = 0; e < expected.entries.size(); ++e) {
        REQUIRE(index->entries[e].name == expected.entries[e].name);
        REQUIRE(index->entries[e].offset == expected.entries[e].offset);
        REQUIRE(index->entries[e].masked_crc32c == expected.entries[e].masked_crc32c);
      }
    }
  }
}

TEST_CASE("tensors beyond the data, across each other and of odd sizes are refused") {
  CHECK(CheckpointRefusal(IndexOf({{"a", {.offset = 4}}}), 11) ==
        "damaged: 'a' takes bytes 4 to 12 of a data file of 11; is that file whole?");
  CHECK(CheckpointRefusal(IndexOf({{"a", {.offset = UINT64_MAX}}}), 8)
            .starts_with("damaged: 'a' takes bytes 18446744073709551615 to "));
  CHECK(CheckpointRefusal(IndexOf({{"a", {}}, {"b", {.offset = 7}}}), 99) ==
        "damaged: 'a' and 'b' overlap");
  CHECK(CheckpointRefusal(IndexOf({{"a", {.shape = {3}}}}), 99) == "damaged: 'a' [3] has 8 bytes");
  CHECK(CheckpointRefusal(IndexOf({{"a", {.shape = {uint64_t{1} << 62, 16}}}}), 99)
            .starts_with("damaged: 'a' [4611686018427387904, 16] has 8 bytes"));
  CHECK(CheckpointRefusal(IndexOf({{"a", {.shard = 1}}}), 99) ==
        "damaged: 'a' is in data file 1 of 1");
  const TemporaryFolder folder;
  folder.Write("m.ckpt.index", IndexOf({{"a", {}}}));
  CHECK_THAT(std::string(WeightFile::Open(folder.File("m.ckpt")).status().message()),
             Catch::Contains("m.ckpt.data-00000-of-00001: cannot open"));
}

TEST_CASE("text and other things without numbers in a checkpoint are passed over") {
  const TemporaryFolder folder;
  folder.Write("m.ckpt.index",
               IndexOf({{"_GRAPH", {.size = 30, .shape = {}, .type = 7}}, {"a", {.offset = 30}}}));
  folder.Write("m.ckpt.data-00000-of-00001", std::string(38, 'x'));
  const WeightFile file = *WeightFile::Open(folder.path());
  CHECK(file.format() == WeightFormat::kTensorFlow);
  REQUIRE(file.tensors().size() == 1);
  CHECK(file.tensors()[0].tensor.name == "a");
}

// ---- shards -------------------------------------------------------------------------------------

TEST_CASE("damaged indexes of shards are refused with the reason") {
  const auto refusal = [](const std::string& json) {
    return Refusal(ParseShardIndex("i.json", json).status());
  };
  CHECK(refusal("{").starts_with("damaged: the index is not JSON: "));
  CHECK(refusal("[]") == "damaged: the index is not an object");
  CHECK(refusal("{}") == "damaged: it has no weight_map");
  CHECK(refusal(R"({"weight_map":{}})") == "damaged: it has no weight_map");
  CHECK(refusal(R"({"weight_map":{"a":"x.safetensors","a":"x.safetensors"}})") ==
        "damaged: the index names 'a' twice");
  CHECK(refusal(R"({"weight_map":{"a":1}})").starts_with("damaged: 'a' is in \"\", which"));
  CHECK(refusal(R"({"weight_map":{"a":"../x.safetensors"}})")
            .starts_with("damaged: 'a' is in \"../x.safetensors\", which is not the name"));
  CHECK(refusal(R"({"weight_map":{"a":"x.bin"}})").starts_with("damaged: 'a' is in \"x.bin\""));
}

TEST_CASE("shards that do not hold what their index says are refused") {
  const TemporaryFolder folder;
  const std::vector<uint8_t> byte(1);
  const auto write = [&](const std::string& file, const std::string& name) {
    const std::vector<NamedTensor> tensors = {
        {name, DType::kUint8, {1}, std::as_bytes(std::span(byte))}};
    REQUIRE(WriteSafetensors(folder.File(file), tensors).ok());
  };
  const auto refusal = [&](const std::string& map) {
    folder.Write("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
    return Refusal(WeightFile::Open(folder.path()).status());
  };
  write("x.safetensors", "a");
  write("y.safetensors", "a");
  CHECK(refusal(R"("a":"x.safetensors","b":"y.safetensors")") ==
        "damaged: 'a' is in y.safetensors, but not according to the index");
  CHECK(refusal(R"("a":"x.safetensors","b":"x.safetensors")") ==
        "damaged: 'b' should be in x.safetensors, but is not");
  CHECK_THAT(refusal(R"("a":"z.safetensors")"), Catch::Contains("cannot open"));
}

// ---- PyTorch ------------------------------------------------------------------------------------

// A zip file of stored members, as torch writes them.
std::string Zip(const Entries& members) {
  std::string zip;
  std::string directory;
  for (const auto& [name, content] : members) {
    const std::string sizes = Fixed32(static_cast<uint32_t>(content.size())) +
                              Fixed32(static_cast<uint32_t>(content.size()));
    const std::string name_size = {static_cast<char>(name.size()), 0};
    const std::string offset = Fixed32(static_cast<uint32_t>(zip.size()));
    const std::string common = std::string(10, '\0') + Fixed32(0) + sizes + name_size;
    zip += std::string("PK\3\4") + common + std::string(2, '\0') + name + content;
    directory += std::string("PK\1\2") + std::string(2, '\0') + common + std::string(12, '\0') +
                 offset + name;
  }
  const auto count = static_cast<char>(members.size());
  return zip + directory + std::string("PK\5\6") + std::string(4, '\0') + count + '\0' + count +
         '\0' + Fixed32(static_cast<uint32_t>(directory.size())) +
         Fixed32(static_cast<uint32_t>(zip.size())) + std::string(2, '\0');
}

std::string TorchRefusal(const std::string& bytes) {
  return Refusal(ParseTorchFile("m.bin", std::as_bytes(std::span(bytes))).status());
}
std::string PickleRefusal(const std::string& pickle) {
  return TorchRefusal(Zip({{"archive/data.pkl", pickle}}));
}

TEST_CASE("files that are no plain state_dict are refused with a command that converts them") {
  CHECK_THAT(
      TorchRefusal("\x80\2junk of the format before version 1.6"),
      Catch::StartsWith("not a zip file as torch.save() writes since version 1.6; convert") &&
          Catch::Contains("python -c \"import torch, safetensors.torch"));
  CHECK(TorchRefusal(Zip({{"archive/x", "y"}})).starts_with("holds no data.pkl"));
  CHECK(TorchRefusal(Zip({{"archive/data.pkl", "\x80\2}."}, {"archive/byteorder", "big"}}))
            .starts_with("written on a big-endian machine"));
  CHECK(PickleRefusal("\x80\2K\1.").starts_with("holds no dictionary"));
  // What would run a program: os.system("true"); an object of somebody's class.
  CHECK_THAT(PickleRefusal("\x80\2}X\1\1\1\1"),
             Catch::StartsWith("damaged: its pickle ends early"));
  const std::string call = std::string("\x80\2}U\1acos\nsystem\nU\4true\x85R") + "s.";
  CHECK(PickleRefusal(call).starts_with("'a' is not a plain tensor but os.system"));
  CHECK_THAT(PickleRefusal("\x80\2(cos\nsystem\n\x81."),
             Catch::Contains("instruction 0x81 at byte 14 does not occur in a plain state_dict") &&
                 Catch::Contains("weights_only=False") && Catch::Contains("you trust it"));
  const std::string size = Fixed32(5000);
  CHECK(PickleRefusal("\x80\2}X" + size + std::string(5000, 'n') + "Ns.") ==
        std::string("damaged: a tensor's name has 5000 characters: '") + std::string(300, 'n') +
            "...'");
  CHECK(PickleRefusal("\x80\2}K\1K\2s.").starts_with("holds names that are not text"));
  CHECK(PickleRefusal("\x80\2}(U\1aNU\1aNu.").find("'a' is not a plain tensor") !=
        std::string::npos);
}

TEST_CASE("files that a fetch left behind are refused with what to do, which is no conversion") {
  CHECK(TorchRefusal("") == "is empty; fetch it again");
  CHECK(TorchRefusal("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n") ==
        "is a Git LFS pointer; run git lfs pull");
  CHECK(TorchRefusal("<!DOCTYPE html><html>Not found</html>") ==
        "is a web page, not weights; fetch it again");
  const std::string zip = Zip({{"archive/data.pkl", "\x80\2}."}});
  CHECK(TorchRefusal(zip.substr(0, zip.size() - 30)) ==
        "damaged: the end of the zip file is missing; fetch it again");
  // Method 8 of the directory's one entry: deflated, as other programs pack it.
  std::string packed = zip;
  packed[packed.find("PK\1\2") + 10] = 8;
  CHECK_THAT(TorchRefusal(packed), Catch::StartsWith("its members are compressed; convert it: ") &&
                                       Catch::Contains("weights_only=True"));
}

// A state_dict's entry: a tensor of that shape and those strides (single digits) in storage "0".
std::string TensorPickle(const std::string& name, const std::string& storage,
                         const std::string& shape, const std::string& strides) {
  const auto text = [](const std::string& content) {
    return std::string("U") + static_cast<char>(content.size()) + content;
  };
  const auto tuple = [](const std::string& digits) {
    std::string pickle = "(";
    for (const char digit : digits) pickle += std::string("K") + static_cast<char>(digit - '0');
    return pickle + "t";
  };
  std::string pickle = text(name) + "ctorch._utils\n_rebuild_tensor_v2\n((";
  pickle += text("storage") + "ctorch\n" + storage + "\n" + text("0") + text("cpu");
  pickle += "K\4tQK";
  pickle += '\0';
  return pickle + tuple(shape) + tuple(strides) + "tRs";
}

TEST_CASE("tensors of types that no weights have are passed over, those of no elements are not") {
  // Four numbers, whose CRC32 is the 0 that Zip() writes.
  std::string storage;
  for (int i = 0; i < 4; ++i) storage += "\x9d\x0a\xd9\x6d";
  const auto read = [&](const std::string& tensors) {
    const std::string bytes =
        Zip({{"archive/data.pkl", "\x80\2}" + tensors + "."}, {"archive/data/0", storage}});
    return ParseTorchFile("m.bin", std::as_bytes(std::span(bytes)));
  };
  const auto entries = read(
      TensorPickle("a", "FloatStorage", "22", "21") + TensorPickle("b", "CharStorage", "4", "1") +
      TensorPickle("c", "ShortStorage", "4", "1") + TensorPickle("d", "FloatStorage", "30", "11") +
      TensorPickle("e", "FloatStorage", "03", "31"));
  INFO(std::string(entries.status().message()));
  REQUIRE(entries.ok());
  REQUIRE(entries->size() == 3);
  CHECK(entries->at(0).name == "a");
  CHECK(entries->at(0).data.size() == 16);
  CHECK(entries->at(1).name == "d");
  CHECK(entries->at(1).shape == std::vector<int64_t>{3, 0});
  CHECK(entries->at(1).data.empty());
  CHECK(entries->at(2).name == "e");
  CHECK_THAT(std::string(read(TensorPickle("a", "FloatStorage", "22", "12")).status().message()),
             Catch::Contains("'a' is not stored in C order"));
  CHECK_THAT(std::string(read(TensorPickle("a", "QInt8Storage", "4", "1")).status().message()),
             Catch::Contains("'a' is stored as a torch.QInt8Storage"));
}

TEST_CASE("damaged pickles are refused, whatever they do to the stack") {
  for (const char* const pickle : {"",        "\x80",
                                   "}",       ".",
                                   "0",       "R",
                                   "s",       "u",
                                   "(u.",     "a",
                                   "e",       "\x87",
                                   "t",       "h",
                                   "q",       "Q",
                                   "b",       "]K\1s.",
                                   "}K\1a.",  "cos\n",
                                   "\x93",    "X\xff\xff\xff\xff",
                                   "(((.",    "NN.",
                                   "\x8a\x09"}) {
    INFO(pickle);
    CHECK_THAT(PickleRefusal(pickle), Catch::StartsWith("damaged: its pickle ends early"));
  }
  // Lists in themselves and chains of many thousand lists free what they take.
  CHECK_FALSE(ParseTorchFile("m", {}).ok());
  std::string ring = "]q";
  ring += '\0';
  ring += "h";
  ring += '\0';
  CHECK(PickleRefusal(ring + "a.").starts_with("holds no dictionary"));
  CHECK(PickleRefusal("]" + std::string(100000, '\x85') + ".").starts_with("holds no dictionary"));
}

TEST_CASE("no cut and no flipped bit of a PyTorch file crashes its reader") {
  const std::string good = ReadTestFile(kGoldens + "torch/pytorch_model.bin");
  const auto parse = [](const std::string& bytes) {
    return ParseTorchFile("m.bin", std::as_bytes(std::span(bytes)));
  };
  REQUIRE(parse(good).ok());
  CHECK(parse(good)->size() == 39);
  for (size_t i = 0; i < good.size(); i += 7) {
    CHECK_FALSE(parse(good.substr(0, i)).ok());
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1 << (i % 8));
    const auto entries = parse(bad);
    if (entries.ok()) CHECK(entries->size() == 39);
  }
  // A number of a tensor is found by its storage's checksum.
  const auto entries = *parse(good);
  std::string bad = good;
  char& number =
      bad[static_cast<size_t>(reinterpret_cast<const char*>(entries[3].data.data()) - good.data())];
  number = static_cast<char>(number ^ 4);
  CHECK_THAT(TorchRefusal(bad), Catch::Contains("fails its CRC32"));
}

// ---- paths --------------------------------------------------------------------------------------

TEST_CASE("a path without weights says what was looked for") {
  const TemporaryFolder folder;
  const Status empty = WeightFile::Open(folder.path()).status();
  CHECK(empty.code() == ExitCode::kUsage);
  CHECK_THAT(empty.message(), Catch::StartsWith(folder.path() + ": holds no weights: no model"));
  CHECK(
      Refusal(WeightFile::Open(folder.File("none")).status()).starts_with("cannot open: No such"));
  folder.Write("notes.txt", "");
  CHECK(Refusal(WeightFile::Open(folder.File("notes.txt")).status())
            .starts_with("its name is not that of a weight file; supported are .safetensors"));
  folder.Write("pytorch_model.bin.index.json", "{}");
  CHECK(Refusal(WeightFile::Open(folder.path()).status()).starts_with("holds PyTorch shards"));
  std::filesystem::remove(folder.File("pytorch_model.bin.index.json"));
  folder.Write("a.ckpt-1.index", "");
  folder.Write("a.ckpt-2.index", "");
  CHECK_THAT(Refusal(WeightFile::Open(folder.path()).status()),
             Catch::StartsWith("holds several TensorFlow checkpoints; name one, as") &&
                 Catch::Contains("a.ckpt-2.index"));
}

}  // namespace
}  // namespace dtrain
