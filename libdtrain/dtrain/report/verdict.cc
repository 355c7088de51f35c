// verdict.cc - names of levels, and verdicts that lack a record.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/verdict.h"

#include <utility>

namespace dtrain {

std::string_view Name(VerdictLevel level) {
  switch (level) {
    case VerdictLevel::kBad:
      return "bad";
    case VerdictLevel::kWarn:
      return "warn";
    case VerdictLevel::kNote:
      return "note";
    case VerdictLevel::kUnknown:
      return "unknown";
    case VerdictLevel::kGood:
      break;
  }
  return "good";
}

std::string_view Name(Sureness sure) {
  switch (sure) {
    case Sureness::kMeasured:
      return "measured";
    case Sureness::kLikely:
      return "likely";
    case Sureness::kHint:
      return "a hint";
    case Sureness::kCannotTell:
      break;
  }
  return "cannot tell";
}

void CannotTell(std::string title, std::string text, Verdict& verdict) {
  verdict.level = VerdictLevel::kUnknown;
  verdict.title = std::move(title);
  verdict.text = std::move(text);
  verdict.sure = Sureness::kCannotTell;
}

}  // namespace dtrain
