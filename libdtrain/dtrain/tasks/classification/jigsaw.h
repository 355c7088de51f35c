// jigsaw.h - columns of "Jigsaw Unintended Bias in Toxicity Classification".
// SPDX-License-Identifier: Apache-2.0
//
//   const ExampleSchema schema = JigsawSchema({.group_weights = GroupWeights::kFixed});
//   ExampleReader::Open("train.csv", schema);
//
// Borkan et al., "Nuanced Metrics for Measuring Unintended Bias with Real Data for Text
// Classification" (WWW 2019);
// https://www.kaggle.com/c/jigsaw-unintended-bias-in-toxicity-classification. The competition's
// train.csv has 45 columns, its test.csv id and comment_text. In all_data.csv and
// test_private_expanded.csv the label's column is "toxicity".
#ifndef DTRAIN_TASKS_CLASSIFICATION_JIGSAW_H_
#define DTRAIN_TASKS_CLASSIFICATION_JIGSAW_H_

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/tasks/classification/example_reader.h"

namespace dtrain {

// The subgroups of the competition's metric, in its order. Bit i of a row's groups is the i-th.
inline constexpr std::array<std::string_view, 9> kJigsawIdentities = {
    "male",  "female", "homosexual_gay_or_lesbian",    "christian", "jewish", "muslim",
    "black", "white",  "psychiatric_or_mental_illness"};

// Additional soft targets, on which the competition's kernels train too.
inline constexpr std::array<std::string_view, 6> kJigsawAuxiliaries = {
    "target", "severe_toxicity", "obscene", "identity_attack", "insult", "threat"};

struct JigsawOptions {
  bool labelled = true;  // false: test.csv, where labels and groups are optional
  std::string label = "target";
  bool auxiliary = false;  // seven labels per row: toxic or not, then kJigsawAuxiliaries
  GroupWeights group_weights = GroupWeights::kNone;
  BadRows bad_rows = BadRows::kError;
  RowShare share = {};
  int64_t max_rows = 0;
};

// The label's column in these files, from the header of the first: "toxicity" if only that exists,
// otherwise "target". The files need not be readable.
std::string JigsawLabelColumn(const std::vector<std::string>& paths);

// The label is `label` >= 0.5, for one output with a sigmoid. A row belongs to an identity group if
// its value is at least 0.5; empty fields are 0. Ids are kept.
ExampleSchema JigsawSchema(const JigsawOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_JIGSAW_H_
