// verdict.h - what a rule says of a run.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_REPORT_VERDICT_H_
#define DTRAIN_REPORT_VERDICT_H_

#include <string>
#include <string_view>

namespace dtrain {

enum class VerdictLevel {
  kBad,      // a problem
  kWarn,     // change this
  kNote,     // worth knowing
  kUnknown,  // cannot be told, and why
  kGood
};

// How sure a verdict is.
enum class Sureness {
  kMeasured,
  kLikely,  // from a model, or from records that are incomplete
  kHint,    // a rule of thumb
  kCannotTell
};

// "bad", "warn", "note", "unknown", "good".
std::string_view Name(VerdictLevel level);
// "measured", "likely", "a hint", "cannot tell".
std::string_view Name(Sureness sure);

struct Verdict {
  std::string id = {};  // stays the same from version to version, as levels do
  VerdictLevel level = VerdictLevel::kGood;
  std::string title = {};
  std::string text = {};
  std::string number = {};
  Sureness sure = Sureness::kMeasured;
  std::string evidence = {};
  std::string change = {};  // what to change; of a good verdict empty
  std::string curve = {};   // name of the chart or section that shows it
};

// Makes `verdict` one that says why nothing can be told.
void CannotTell(std::string title, std::string text, Verdict& verdict);

}  // namespace dtrain

#endif  // DTRAIN_REPORT_VERDICT_H_
