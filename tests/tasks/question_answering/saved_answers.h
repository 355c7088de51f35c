// saved_answers.h - a run of bert_squad with a tiny model, as tests of its use open it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TASKS_QUESTION_ANSWERING_SAVED_ANSWERS_H_
#define DTRAIN_TESTS_TASKS_QUESTION_ANSWERING_SAVED_ANSWERS_H_

#include <string>

#include "dtrain/tasks/question_answering/head.h"
#include "dtrain/tasks/question_answering/task.h"
#include "tasks/classification/saved_classifier.h"
#include "testing/file_testing.h"

namespace dtrain::testing {

// A checkpoint as bert_squad writes it, from random weights.
struct SavedAnswers {
  explicit SavedAnswers(const std::string& data = "max_length: 16 lower_case: false")
      : model(SmallOptions().bert) {
    model.Allocate({}, DType::kFloat32, /*seed=*/3);
    SaveWeights(model.parameters(),
                {{"config.textproto", SmallConfig(data)},
                 {"vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nx\n"},
                 {"answers.txt", AnswersText(false)}},
                folder.File("ckpt"));
  }
  TemporaryFolder folder;
  BertQuestionAnswering model;
};

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TASKS_QUESTION_ANSWERING_SAVED_ANSWERS_H_
