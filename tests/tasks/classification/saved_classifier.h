// saved_classifier.h - a checkpoint as bert_classify writes it, of a model that fits in a test.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TASKS_CLASSIFICATION_SAVED_CLASSIFIER_H_
#define DTRAIN_TESTS_TASKS_CLASSIFICATION_SAVED_CLASSIFIER_H_

#include <string>
#include <vector>

#include "dtrain/tasks/classification/head.h"
#include "dtrain/train/task.h"
#include "tasks/shared/saved_weights.h"
#include "testing/file_testing.h"

namespace dtrain::testing {

inline BertClassifierOptions SmallOptions() {
  return {.bert = {.vocab_size = 9,
                   .hidden_size = 8,
                   .num_layers = 1,
                   .num_heads = 2,
                   .ffn_size = 12,
                   .max_positions = 16},
          .num_labels = 3};
}

// Of the sizes of SmallOptions(); `data` is what stands in the data section.
inline std::string SmallConfig(const std::string& data = "lower_case: false") {
  return "model { num_layers: 1 hidden_size: 8 num_heads: 2 ffn_size: 12 max_positions: 16 "
         "vocab_size: 9 activation: gelu_tanh dropout: 0.2 }\ndata { " +
         data + " }\n";
}

// A checkpoint as bert_classify writes it, from random weights, without optimizer.
struct SavedRun {
  explicit SavedRun(const std::string& config = SmallConfig(),
                    const std::string& labels = "a\nb\nc\n", std::vector<NamedFile> more = {})
      : model(SmallOptions()) {
    model.Allocate({}, DType::kFloat32, /*seed=*/3);
    std::vector<NamedFile> files = {{"config.textproto", config},
                                    {"vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nx\n"},
                                    {"labels.txt", labels}};
    files.insert(files.end(), more.begin(), more.end());
    SaveWeights(model.parameters(), files, folder.File("ckpt"));
  }
  TemporaryFolder folder;
  BertClassifier model;
};

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TASKS_CLASSIFICATION_SAVED_CLASSIFIER_H_
