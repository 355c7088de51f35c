// options.h - converts sections of a SquadConfig to the library's options.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_INTERNAL_OPTIONS_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_INTERNAL_OPTIONS_H_

#include "dtrain/squad.pb.h"
#include "dtrain/tasks/question_answering/answers.h"
#include "dtrain/tasks/question_answering/windows.h"

namespace dtrain::internal {

inline SquadWindowOptions WindowsOf(const proto::SquadDataConfig& data) {
  return {.max_length = data.max_length(),
          .stride = data.stride(),
          .max_question = data.max_question()};
}

// The data determines whether a question may have no answer.
inline SquadAnswerOptions AnswersOf(const proto::SquadAnswerConfig& answer) {
  return {.n_best = answer.n_best(),
          .max_answer_length = answer.max_length(),
          .null_threshold = answer.null_threshold()};
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_INTERNAL_OPTIONS_H_
