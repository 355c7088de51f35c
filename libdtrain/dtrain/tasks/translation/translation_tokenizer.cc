// translation_tokenizer.cc - finds the kind of a tokenizer, and hands each call to it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/translation/translation_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <type_traits>
#include <utility>

#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/tasks/translation/internal/hf_tokenizer.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr char kOwn[] = "vocab.spm";
constexpr char kMarian[] = "source.spm";

bool Has(const std::string& folder, std::string_view name) {
  std::error_code error;
  return fs::exists(fs::path(folder) / name, error);
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Whether the folder is what dtrain exports a vocabulary of its own as: for each language the same
// BPE model, whose ids are those of vocab.json.
bool IsOwnExport(const std::string& folder, const BpeModel& model) {
  const StatusOr<std::string> source = ReadWholeFile(folder + "/" + kMarian);
  const StatusOr<std::string> target = ReadWholeFile(folder + "/target.spm");
  const StatusOr<std::string> vocabulary = ReadWholeFile(folder + "/vocab.json");
  if (!source.ok() || !target.ok() || !vocabulary.ok() || *source != *target) return false;
  return internal::ParseJson<nlohmann::json>(*vocabulary) ==
         internal::ParseJson<nlohmann::json>(internal::HfVocabulary(model));
}

std::vector<int32_t> NeverWritten(const BpeModel& model) {
  std::vector<int32_t> ids = {model.bos_id(), model.unk_id()};
  const std::vector<BpePiece>& pieces = model.vocabulary().pieces;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view text = pieces[i].text;
    const bool ends_line = text == "<0x00>" || text == "<0x0A>" || text == "<0x0D>";
    if (ends_line && pieces[i].type == BpePieceType::kByte) ids.push_back(static_cast<int32_t>(i));
  }
  return ids;
}

}  // namespace

std::string TokenizerPathIn(const std::string& folder) {
  return !Has(folder, kOwn) && Has(folder, kMarian) ? folder : folder + "/" + kOwn;
}

TranslationTokenizer::TranslationTokenizer(Kind kind, std::vector<NamedFile> files)
    : kind_(std::move(kind)), files_(std::move(files)) {}

std::vector<std::string> TranslationTokenizer::FilesOf(const std::string& path) {
  if (!IsFolder(path)) return {path};
  if (Has(path, kOwn)) return {path + "/" + kOwn};
  std::vector<std::string> files;
  for (const std::string_view name : kTokenizerFiles) {
    if (Has(path, kMarian) && Has(path, name)) files.push_back(path + "/" + std::string(name));
  }
  return files;
}

StatusOr<TranslationTokenizer> TranslationTokenizer::Load(const std::string& path) {
  const bool is_marian = IsFolder(path) && !Has(path, kOwn) && Has(path, kMarian);
  if (is_marian) {
    // A BPE model that is read has its own ids, so that a folder must agree with them.
    const std::string source = path + "/" + kMarian;
    const StatusOr<BpeModel> model = BpeModel::Load(source);
    if (model.ok() && IsOwnExport(path, *model)) {
      DT_ASSIGN_OR_RETURN(std::string contents, ReadWholeFile(source));
      return TranslationTokenizer(*model, {{kOwn, std::move(contents)}});
    }
    DT_ASSIGN_OR_RETURN(MarianTokenizer marian, MarianTokenizer::Load(path));
    std::vector<NamedFile> files;
    for (const std::string& file : FilesOf(path)) {
      DT_ASSIGN_OR_RETURN(std::string contents, ReadWholeFile(file));
      files.push_back({fs::path(file).filename().string(), std::move(contents)});
    }
    return TranslationTokenizer(std::move(marian), std::move(files));
  }
  const std::string file = IsFolder(path) || path.empty() ? path + "/" + kOwn : path;
  DT_ASSIGN_OR_RETURN(BpeModel model, BpeModel::Load(file));
  DT_ASSIGN_OR_RETURN(std::string contents, ReadWholeFile(file));
  return TranslationTokenizer(std::move(model), {{kOwn, std::move(contents)}});
}

std::string TranslationTokenizer::Decode(std::span<const int32_t> ids) const {
  return std::visit([&](const auto& kind) { return kind.Decode(ids); }, kind_);
}
std::string_view TranslationTokenizer::Piece(int32_t id, MarianSide side) const {
  const MarianTokenizer* const marian = std::get_if<MarianTokenizer>(&kind_);
  return marian != nullptr ? marian->Piece(id, side) : std::get<BpeModel>(kind_).Piece(id);
}
int32_t TranslationTokenizer::bos_id() const {
  const BpeModel* const own = std::get_if<BpeModel>(&kind_);
  return own != nullptr ? own->bos_id() : -1;
}
int32_t TranslationTokenizer::vocab_size(MarianSide side) const {
  const MarianTokenizer* const marian = std::get_if<MarianTokenizer>(&kind_);
  return marian != nullptr ? marian->vocab_size(side) : std::get<BpeModel>(kind_).vocab_size();
}
bool TranslationTokenizer::has_separate_vocabularies() const {
  const MarianTokenizer* const marian = std::get_if<MarianTokenizer>(&kind_);
  return marian != nullptr && marian->has_separate_vocabularies();
}
int32_t TranslationTokenizer::unk_id() const {
  return std::visit([](const auto& kind) { return kind.unk_id(); }, kind_);
}
int32_t TranslationTokenizer::eos_id() const {
  return std::visit([](const auto& kind) { return kind.eos_id(); }, kind_);
}
int32_t TranslationTokenizer::pad_id() const {
  return std::visit([](const auto& kind) { return kind.pad_id(); }, kind_);
}
uint64_t TranslationTokenizer::Hash() const {
  return std::visit([](const auto& kind) { return kind.Hash(); }, kind_);
}

std::vector<int32_t> TranslationTokenizer::never_translated() const {
  const BpeModel* const own = std::get_if<BpeModel>(&kind_);
  return own != nullptr ? NeverWritten(*own) : std::vector<int32_t>();
}

TranslationEncoder::TranslationEncoder(const TranslationTokenizer& tokenizer)
    : of_(std::visit(
          [](const auto& kind) -> decltype(of_) {
            if constexpr (std::is_same_v<std::decay_t<decltype(kind)>, BpeModel>) {
              return BpeBatchEncoder(kind);
            } else {
              return MarianBatchEncoder(kind);
            }
          },
          tokenizer.kind())) {}

EncodedLines TranslationEncoder::Encode(std::span<const std::string> lines, MarianLines sides) {
  if (auto* const own = std::get_if<BpeBatchEncoder>(&of_)) return own->Encode(lines);
  return std::get<MarianBatchEncoder>(of_).Encode(lines, sides);
}

}  // namespace dtrain
