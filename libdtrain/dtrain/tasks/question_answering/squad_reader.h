// squad_reader.h - reads SQuAD 1.1 and 2.0: paragraphs, questions, and where the answers stand.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const SquadSet train,
//                       ReadSquad({"train-v2.0.json"}, SquadAnswers::kRequired));
//   for (const SquadQuestion& question : train.questions) train.contexts[question.context] ...
//
// Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text" (2016), and
// "Know What You Don't Know: Unanswerable Questions for SQuAD" (2018). A file is one object:
//   {"version": "v2.0", "data": [{"paragraphs": [{"context": "...", "qas": [
//     {"id": "...", "question": "...", "is_impossible": false,
//      "answers": [{"text": "...", "answer_start": 12}]}]}]}]}
// Other members are passed over. answer_start counts code points; here all places are bytes. Files
// may be plain, gzip or Zstandard, whatever their names.
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_SQUAD_READER_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_SQUAD_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

struct SquadAnswer {
  static constexpr int64_t kNowhere = -1;

  std::string text;
  // Byte of the context where it stands; kNowhere for one that predictions are compared with, but
  // nothing can learn from.
  int64_t begin = 0;
};

struct SquadQuestion {
  std::string id;
  std::string text;
  int64_t context = 0;               // index into SquadSet::contexts
  std::vector<SquadAnswer> answers;  // none where is_impossible
  bool is_impossible = false;        // the paragraph holds no answer (2.0)
};

// All texts are UTF-8.
struct SquadSet {
  std::string version;  // of the first file that states one: "1.1", "v2.0"
  std::vector<std::string> contexts;
  std::vector<SquadQuestion> questions;  // in the order of the files
  int64_t lost_answers = 0;              // their text is empty or nowhere in the paragraph
  int64_t moved_answers = 0;             // they stand elsewhere than answer_start says
  uint32_t crc = 0;                      // CRC32C of the files' texts, one after the other
  bool has_impossible = false;           // some question is_impossible
};

// kRequired, for training: every question that is not impossible lists an answer. kOptional, for
// prediction: what a file says of answers is not looked at, and no question has any.
enum class SquadAnswers : uint8_t { kRequired, kOptional };

// Of one or more files. An answer that does not stand where the file says is taken from the nearest
// place of the paragraph where its text does. Memory: a file's bytes and what the set holds.
// DataError naming file and line and column (no JSON, not UTF-8) or the place in the data: what is
// missing, of another type, or empty; an id that is there twice; a file without questions.
StatusOr<SquadSet> ReadSquad(const std::vector<std::string>& paths, SquadAnswers answers);

// Appends the content `text` of a file called `name` to `set`, which after an error is of no use.
Status ParseSquad(std::string_view text, const std::string& name, SquadAnswers answers,
                  SquadSet& set);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_SQUAD_READER_H_
