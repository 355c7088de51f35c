// squad_reader.h - reads SQuAD 1.1 and 2.0: paragraphs, questions and the places of answers.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const SquadSet train,
//                       ReadSquad({"train-v2.0.json"}, SquadAnswers::kRequired));
//   for (const SquadQuestion& question : train.questions) train.contexts[question.context] ...
//
// A file is one object:
//   {"version": "v2.0", "data": [{"paragraphs": [{"context": "...", "qas": [
//     {"id": "...", "question": "...", "is_impossible": false,
//      "answers": [{"text": "...", "answer_start": 12}]}]}]}]}
// Other members are ignored. In files answer_start counts code points; here all positions are in
// bytes. Files may be plain, gzip or Zstandard, whatever their names.
//
// SQuAD 1.1: Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text"
// (2016). SQuAD 2.0: "Know What You Don't Know: Unanswerable Questions for SQuAD" (2018).
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_SQUAD_READER_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_SQUAD_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/utf8.h"

namespace dtrain {

struct SquadAnswer {
  static constexpr int64_t kNowhere = -1;

  std::string text;
  // First byte of the answer in the context, or kNowhere. An answer that is nowhere is only
  // compared with predictions; it cannot be trained on.
  int64_t begin = 0;
};

struct SquadQuestion {
  std::string id;
  std::string text;
  int64_t context = 0;               // index into SquadSet::contexts
  std::vector<SquadAnswer> answers;  // empty if is_impossible
  bool is_impossible = false;        // the paragraph has no answer (2.0)
};

// All texts are UTF-8.
struct SquadSet {
  std::string version;  // the first version that any file states: "1.1", "v2.0"
  std::vector<std::string> contexts;
  std::vector<SquadQuestion> questions;  // in the order of the files
  int64_t lost_answers = 0;              // answers with an empty text, or a text that is not in the
                                         // paragraph
  int64_t moved_answers = 0;             // answers found at another place than answer_start
  uint32_t crc = 0;                      // CRC32C of the files' contents, one after the other
  bool has_impossible = false;           // true if any question is_impossible
};

// kRequired, for training: every question must have an answer or be impossible. kOptional, for
// prediction: answers in the file are ignored, and questions have none.
enum class SquadAnswers : uint8_t { kRequired, kOptional };

// Reads one or more files. If the text at answer_start is not the answer, the nearest occurrence in
// the paragraph is used and the answer is counted in moved_answers. Memory: one file's bytes and
// the set itself. Returns DataError that names the file and the line and column (no JSON, not
// UTF-8), or the place in the data: a member is missing, empty or of another type, an id occurs
// twice, or a file has no questions. With kReplace, bytes that are not UTF-8
// become U+FFFD with a warning; otherwise they are an error.
StatusOr<SquadSet> ReadSquad(const std::vector<std::string>& paths, SquadAnswers answers,
                             InvalidText invalid = InvalidText::kFail);

// Parses the content `text` of a file called `name` and appends it to `set`. After an error the set
// must not be used.
Status ParseSquad(std::string_view text, const std::string& name, SquadAnswers answers,
                  SquadSet& set);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_SQUAD_READER_H_
