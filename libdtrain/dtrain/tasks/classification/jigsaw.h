// jigsaw.h - the comments of "Jigsaw Unintended Bias in Toxicity Classification": their columns.
// SPDX-License-Identifier: Apache-2.0
//
//   const ExampleSchema schema = JigsawSchema({.group_weights = GroupWeights::kFixed});
//   ExampleReader::Open("train.csv", schema);
//
// Borkan et al., "Nuanced Metrics for Measuring Unintended Bias with Real Data for Text
// Classification" (WWW 2019); https://www.kaggle.com/c/jigsaw-unintended-bias-in-toxicity-
// classification. The competition's train.csv has 45 columns, its test.csv id and comment_text; in
// all_data.csv and test_private_expanded.csv the column of the label is "toxicity".
#ifndef DTRAIN_TASKS_CLASSIFICATION_JIGSAW_H_
#define DTRAIN_TASKS_CLASSIFICATION_JIGSAW_H_

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/tasks/classification/example_reader.h"

namespace dtrain {

// The subgroups of the competition's metric, in its order; bit i of a row's groups is the i-th.
inline constexpr std::array<std::string_view, 9> kJigsawIdentities = {
    "male",  "female", "homosexual_gay_or_lesbian",    "christian", "jewish", "muslim",
    "black", "white",  "psychiatric_or_mental_illness"};

// Soft targets beside the label, as the competition's kernels train on them.
inline constexpr std::array<std::string_view, 6> kJigsawAuxiliaries = {
    "target", "severe_toxicity", "obscene", "identity_attack", "insult", "threat"};

struct JigsawOptions {
  bool labelled = true;  // false: test.csv, which may have labels and groups or not
  std::string label = "target";
  bool auxiliary = false;  // seven labels a row: toxic or not, then kJigsawAuxiliaries
  GroupWeights group_weights = GroupWeights::kNone;
  BadRows bad_rows = BadRows::kError;
  RowShare share = {};
  int64_t max_rows = 0;
};

// The column of the label in these files, by the header of the first: "target", or "toxicity" where
// only that is there. The files need not be readable.
std::string JigsawLabelColumn(const std::vector<std::string>& paths);

// Labels: `label` >= 0.5, one output with a sigmoid. Groups: identities at or above 0.5, an empty
// field is 0. Ids are kept.
ExampleSchema JigsawSchema(const JigsawOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_JIGSAW_H_
