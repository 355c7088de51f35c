// vocabulary_file.cc - one name for WordPiece, another for all other tokenizers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/vocabulary_file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "dtrain/base/file.h"
#include "dtrain/tokenizers/internal/merges_files.h"
#include "dtrain/tokenizers/text_tokenizer.h"

namespace dtrain::internal {
namespace {

namespace fs = std::filesystem;

Status AddIfThere(const fs::path& path, const char* name, std::vector<NamedFile>& files) {
  std::error_code error;
  if (!fs::exists(path, error)) return OkStatus();
  DT_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(path));
  files.push_back({name, std::move(text)});
  return OkStatus();
}

// The name of the tokenizer's file among those that `has` knows.
template <typename Has>
const char* VocabularyName(const Has& has) {
  if (has(kTokenizerFile)) return kTokenizerFile;
  return has(kPiecesFile) && has(kMergesFile) ? kPiecesFile : kWordPieceFile;
}

StatusOr<std::vector<NamedFile>> ReadVocabularyFiles(const std::string& path) {
  DT_ASSIGN_OR_RETURN(NamedFile vocabulary, ReadVocabularyFile(path));
  std::vector<NamedFile> files = {std::move(vocabulary)};
  if (files[0].name == kPiecesFile) {
    const fs::path merges = fs::path(path).parent_path() / kMergesFile;
    DT_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(merges));
    files.push_back({kMergesFile, std::move(text)});
  }
  return files;
}

}  // namespace

bool HasCheckpointFile(const Checkpoint& checkpoint, std::string_view name) {
  return checkpoint.Has(name) ||
         (name == kWordPieceFile && checkpoint.Has(VocabularyNameIn(checkpoint))) ||
         (name == kTranslationFile && checkpoint.Has(kMarianFile));
}

std::string VocabularyNameIn(const Checkpoint& checkpoint) {
  return VocabularyName([&](const char* name) { return checkpoint.Has(name); });
}

std::string VocabularyPathIn(const std::string& folder) {
  const auto has = [&](const char* name) {
    std::error_code error;
    return fs::exists(fs::path(folder) / name, error);
  };
  return fs::path(folder) / (has(kWordPieceFile) ? kWordPieceFile : VocabularyName(has));
}

StatusOr<NamedFile> ReadVocabularyFile(const std::string& path) {
  DT_ASSIGN_OR_RETURN(const bool is_word_piece, HoldsWordPiece(path));
  if (!is_word_piece) {
    DT_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(path));
    return NamedFile{IsMergesVocabulary(path) ? kPiecesFile : kTokenizerFile, std::move(text)};
  }
  DT_ASSIGN_OR_RETURN(std::string pieces, ReadVocabularyText(path));
  return NamedFile{kWordPieceFile, std::move(pieces)};
}

StatusOr<bool> IsSameVocabulary(const std::string& path, const std::string& other) {
  DT_ASSIGN_OR_RETURN(const std::vector<NamedFile> files, ReadVocabularyFiles(path));
  DT_ASSIGN_OR_RETURN(const std::vector<NamedFile> others, ReadVocabularyFiles(other));
  return std::ranges::equal(files, others, [](const NamedFile& a, const NamedFile& b) {
    return a.name == b.name && a.contents == b.contents;
  });
}

StatusOr<std::vector<NamedFile>> ReadTokenizerFiles(const std::string& path,
                                                    const std::string& pretrained) {
  DT_ASSIGN_OR_RETURN(std::vector<NamedFile> files, ReadVocabularyFiles(path));
  const fs::path beside = fs::path(path).parent_path();
  if (files[0].name != kWordPieceFile) {
    DT_RETURN_IF_ERROR(AddIfThere(beside / kTokenizerConfigFile, kTokenizerConfigFile, files));
  }
  if (files[0].name == kPiecesFile) {
    for (const char* const name : {kSpecialTokensFile, kAddedTokensFile}) {
      DT_RETURN_IF_ERROR(AddIfThere(beside / name, name, files));
    }
  }
  if (pretrained.empty()) return files;
  const size_t before = files.size();
  std::error_code error;
  const fs::path given = pretrained;
  const fs::path folder = fs::is_directory(given, error) ? given : given.parent_path();
  DT_RETURN_IF_ERROR(AddIfThere(folder / "config.json", kPretrainedConfigFile, files));
  if (files.size() > before) return files;
  DT_RETURN_IF_ERROR(AddIfThere(beside / kPretrainedConfigFile, kPretrainedConfigFile, files));
  return files;
}

}  // namespace dtrain::internal
