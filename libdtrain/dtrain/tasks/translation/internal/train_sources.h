// train_sources.h - training text in several sources: its parts, their tags, and their shares.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_INTERNAL_TRAIN_SOURCES_H_
#define DTRAIN_TASKS_TRANSLATION_INTERNAL_TRAIN_SOURCES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tasks/translation/prepare.h"
#include "dtrain/tasks/translation/translation_tokenizer.h"

namespace dtrain::internal {

// One source. Points into the options.
struct SourcePart {
  std::span<const ParallelInput> inputs;
  TrainSource source;
  std::string name;  // "data.sources, item 2 (mine.en)"
};

// The sources of the training text; all of it is one source if the options have none.
std::vector<SourcePart> PartsOf(const PrepareOptions& options);

// Returns UsageError if the inputs are not those of the sources, or a weight or a tag cannot be.
Status CheckSources(const PrepareOptions& options);

// The pieces that the tags are in a vocabulary that is learned, each once: at the beginning of a
// word. Returns UsageError if a tag could be confused with ordinary text.
StatusOr<std::vector<std::string>> TagPiecesOf(const PrepareOptions& options);

// The line as training has it: "<medical> Take two."
std::string WithTag(std::string_view tag, std::string_view line);
// The line without the tag of a source, if it begins with one.
std::string_view WithoutTag(std::string_view line, std::span<const TrainSource> sources);

// Returns UsageError if a tag is not one piece of the vocabulary.
Status CheckTags(std::span<const SourcePart> parts, const TranslationTokenizer& tokenizer);

// Sets each source's number of pairs in an epoch. Returns DataError if a source has no pair, or
// gives none to an epoch.
Status CountShares(std::span<const SourcePart> parts, std::vector<SourceStats>& sources);

// A line for each source. Empty if there is only one.
std::string DescribeSources(std::span<const SourceStats> sources);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_TRANSLATION_INTERNAL_TRAIN_SOURCES_H_
