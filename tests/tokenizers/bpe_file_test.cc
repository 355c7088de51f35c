// bpe_file_test.cc - SentencePiece model files: written and read back, damaged, foreign.
// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/bpe.h"
#include "dtrain/tokenizers/bpe_trainer.h"
#include "testing/catch.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

// No half-written file is left.
bool IsClean(const TemporaryFolder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().filename().string().starts_with(".tmp")) return false;
  }
  return true;
}

BpeModel SmallModel(bool byte_fallback = false) {
  WordCounter counter(1);
  counter.Add(std::vector<std::string>{"ein Hund rennt", "ein Hase rennt", "über große Häuser"});
  return LearnBpe(counter, {.vocab_size = byte_fallback ? 300 : 40, .byte_fallback = byte_fallback})
      .value();
}

std::string LoadError(const std::string& path) {
  const Status status = BpeModel::Load(path).status();
  CHECK(status.code() == ExitCode::kData);
  const std::string message(status.message());
  CHECK(message.starts_with(path + ": "));
  return message.substr(message.find(": ") + 2);
}

// Protocol-buffer fields by hand: these files are meant to be wrong.
std::string Varint(int field, int value) {
  std::string out;
  for (const int number : {field << 3, value}) {
    if (number >= 128) out += static_cast<char>((number & 127) | 128);
    out += static_cast<char>(number >= 128 ? number >> 7 : number);
  }
  return out;
}
std::string Bytes(int field, const std::string& bytes) {
  return std::string{static_cast<char>(field << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string PieceField(const std::string& text, int type) {
  return Bytes(1, Bytes(1, text) + Varint(3, type));
}
std::string FileOf(const std::string& trainer, const std::string& normalizer,
                   const std::string& more_pieces = "") {
  return PieceField("<unk>", 2) + PieceField("<s>", 3) + PieceField("</s>", 3) +
         PieceField("a", 1) + more_pieces + Bytes(2, trainer) + Bytes(3, normalizer);
}
const std::string kBpeTrainer = Varint(3, 2);
const std::string kIdentity = Bytes(1, "identity");

TEST_CASE("a model comes back from its file as it was") {
  const TemporaryFolder folder;
  for (const bool byte_fallback : {false, true}) {
    const BpeModel model = SmallModel(byte_fallback);
    const std::string path = folder.File("vocab.spm");
    REQUIRE(model.Save(path).ok());
    CHECK(IsClean(folder));
    const BpeModel loaded = BpeModel::Load(path).value();
    CHECK(loaded.Hash() == model.Hash());
    CHECK(loaded.vocab_size() == model.vocab_size());
    CHECK(loaded.Encode("ein großer Hund €") == model.Encode("ein großer Hund €"));
    const std::string bytes = ReadTestFile(path);
    REQUIRE(loaded.Save(path).ok());
    CHECK(ReadTestFile(path) == bytes);
  }
}

TEST_CASE("a minimal file of other origin is read") {
  const TemporaryFolder folder;
  const StatusOr<BpeModel> model =
      BpeModel::Load(folder.Write("foreign.spm", FileOf(kBpeTrainer, kIdentity)));
  REQUIRE(model.ok());
  CHECK(model->vocab_size() == 5);
  CHECK(model->Encode("aa") == std::vector<int32_t>{0, 3, 3});
}

TEST_CASE("no cut and no flipped bit changes what a file says without an error") {
  const TemporaryFolder folder;
  const BpeModel model = SmallModel();
  REQUIRE(model.Save(folder.File("good.spm")).ok());
  const std::string bytes = ReadTestFile(folder.File("good.spm"));
  size_t refused = 0;
  const auto check = [&](const std::string& damaged) {
    const StatusOr<BpeModel> loaded = BpeModel::Load(folder.Write("bad.spm", damaged));
    refused += !loaded.ok();
    CHECK((!loaded.ok() || loaded->Hash() == model.Hash()));
  };
  for (size_t size = 0; size < bytes.size(); size += 7) check(bytes.substr(0, size));
  CHECK(refused >= bytes.size() / 7);  // all but a cut that takes the hash alone away
  refused = 0;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1 << (i / 3 % 8));
    check(damaged);
  }
  CHECK(refused > bytes.size() / 6);  // scores may move a little without changing their order
}

TEST_CASE("a file that is no whole model says so and what to do") {
  const TemporaryFolder folder;
  const std::string advice = "); copy it again or learn a new one";
  const std::string begin = "not a whole SentencePiece model (";
  CHECK(LoadError(folder.Write("a", "")) == begin + "the file is empty" + advice);
  CHECK(LoadError(folder.Write("a", "some text, not a model")) ==
        begin + "its records do not parse" + advice);
  CHECK(LoadError(folder.Write("a", Bytes(2, kBpeTrainer) + Bytes(3, kIdentity))) ==
        begin + "it has no pieces" + advice);
  CHECK(LoadError(folder.Write("a", PieceField("a", 1))) ==
        begin + "the specification at its end is missing" + advice);
  CHECK(LoadError(folder.Write("a", FileOf(kBpeTrainer, kIdentity, PieceField("a", 1)))) ==
        begin + "pieces 3 and 4 are both 'a'" + advice);
  CHECK(LoadError(folder.Write("a", FileOf(kBpeTrainer, kIdentity, PieceField("<0x>", 6)))) ==
        begin + "'<0x>' is not a byte piece" + advice);
  const std::string not_a_number = Bytes(
      1, Bytes(1, "b") + std::string("\x15\x00\x00\xC0\x7F", 5));  // field 2, a float that is NaN
  CHECK(LoadError(folder.Write("a", FileOf(kBpeTrainer, kIdentity, not_a_number))) ==
        begin + "the score of 'b' is not a number" + advice);
}

TEST_CASE("a model of another kind says which") {
  const TemporaryFolder folder;
  CHECK(LoadError(folder.Write("a", FileOf(Varint(3, 1), kIdentity))) ==
        "is a unigram model; dtrain reads BPE models");
  CHECK(LoadError(folder.Write("a", FileOf(kBpeTrainer, Bytes(1, "nmt_nfkc") + Bytes(2, "x")))) ==
        "normalises text by 'nmt_nfkc'; dtrain reads models trained with "
        "--normalization_rule_name=identity");
  CHECK(LoadError(folder.Write("a", FileOf(kBpeTrainer, kIdentity + Varint(3, 0)))) ==
        "treats spaces differently from SentencePiece's default; train it without those "
        "options");
  CHECK(LoadError(folder.Write("a", FileOf(kBpeTrainer, kIdentity, PieceField("xyz", 5)))) ==
        "has the piece 'xyz' of type 5; unused pieces are not supported");
  CHECK(LoadError(folder.Write("a", FileOf(kBpeTrainer, kIdentity, PieceField("x z", 4)))) ==
        "not a whole SentencePiece model (the user-defined piece 'x z' has a space); copy it again "
        "or learn a new one");
}

TEST_CASE("a path that cannot be read or written is named") {
  const TemporaryFolder folder;
  CHECK(LoadError(folder.File("missing.spm")) ==
        "cannot open: No such file or directory; check the path");
  CHECK(LoadError(std::filesystem::path(folder.File("x")).parent_path()) ==
        "is a folder, not a tokenizer model (.spm)");
  const std::string path = folder.File("no/such/folder/vocab.spm");
  const Status status = SmallModel().Save(path);
  CHECK(status.code() == ExitCode::kStorage);
  CHECK(status.message() == path + ": cannot create: No such file or directory; check the path");
}

TEST_CASE("a write that fails half way leaves the file that was there alone") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("vocab.spm", "what was there");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {64, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Status status = SmallModel().Save(path);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(status.code() == ExitCode::kStorage);
  CHECK(status.message() ==
        path + ": cannot write: File too large; raise the limit on file sizes (ulimit -f)");
  CHECK(ReadTestFile(path) == "what was there");
  CHECK(IsClean(folder));
}

}  // namespace
}  // namespace dtrain
