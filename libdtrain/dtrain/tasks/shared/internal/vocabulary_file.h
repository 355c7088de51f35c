// vocabulary_file.h - the files of a checkpoint that hold its tokenizer and what it began with.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_VOCABULARY_FILE_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_VOCABULARY_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/runs/checkpoint.h"
#include "dtrain/train/task.h"

namespace dtrain::internal {

// A WordPiece vocabulary is kept as vocab.txt, other tokenizers as they were given: in one file, or
// in kPiecesFile and the files beside it (tokenizers/internal/merges_files.h).
inline constexpr char kWordPieceFile[] = "vocab.txt";
inline constexpr char kTokenizerFile[] = "tokenizer.json";
// The tokenizers of translations: a vocabulary that dtrain learned, and one of a Marian model.
inline constexpr char kTranslationFile[] = "vocab.spm";
inline constexpr char kMarianFile[] = "source.spm";
// The settings that transformers wrote beside a tokenizer; an export copies them.
inline constexpr char kTokenizerConfigFile[] = "tokenizer_config.json";
// The config.json of the weights that a run began with, whose other keys an export keeps.
inline constexpr char kPretrainedConfigFile[] = "pretrained_config.json";

// Whether the checkpoint has this file. Any tokenizer counts as kWordPieceFile or as
// kTranslationFile, so that programs can list their files whatever the tokenizer is.
bool HasCheckpointFile(const Checkpoint& checkpoint, std::string_view name);

// The name of its tokenizer's file.
std::string VocabularyNameIn(const Checkpoint& checkpoint);

// The tokenizer's file in the folder of a published model, whether it is there or not.
std::string VocabularyPathIn(const std::string& folder);

// The vocabulary in the file `path` as a checkpoint keeps it. DataError: there is none.
StatusOr<NamedFile> ReadVocabularyFile(const std::string& path);
// Whether both have the same pieces and merges.
StatusOr<bool> IsSameVocabulary(const std::string& path, const std::string& other);
// The same and what belongs to it. `pretrained` is the folder or file of the weights that the run
// began with, or "": its config.json comes along, or if it is gone that of the checkpoint whose
// vocabulary that is.
StatusOr<std::vector<NamedFile>> ReadTokenizerFiles(const std::string& path,
                                                    const std::string& pretrained);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_VOCABULARY_FILE_H_
