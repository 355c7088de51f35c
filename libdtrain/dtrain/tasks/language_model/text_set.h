// text_set.h - the texts of UTF-8 files: whole files, or lines.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const TextSet train, ReadTexts({"novel.txt"}, TextUnit::kFile));
#ifndef DTRAIN_TASKS_LANGUAGE_MODEL_TEXT_SET_H_
#define DTRAIN_TASKS_LANGUAGE_MODEL_TEXT_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

enum class TextUnit {
  kFile,  // all lines of a file, each with a line feed behind it
  kLine   // a line that is not blank, without its line feed
};

struct TextSet {
  std::vector<std::string> texts;  // none is empty
  int64_t bytes = 0;               // of all texts
  uint32_t crc = 0;                // CRC32C of all texts
};

// Files may be plain, gzip or Zstandard. DataError names file and line: a file is missing, a line
// is not UTF-8 or holds a NUL byte, or there is no text at all.
StatusOr<TextSet> ReadTexts(const std::vector<std::string>& paths, TextUnit unit);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_LANGUAGE_MODEL_TEXT_SET_H_
