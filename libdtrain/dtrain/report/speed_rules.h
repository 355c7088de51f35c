// speed_rules.h - rules on where the time went, and on the data.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_REPORT_SPEED_RULES_H_
#define DTRAIN_REPORT_SPEED_RULES_H_

#include <limits>
#include <string>

#include "dtrain/report/run_facts.h"
#include "dtrain/report/verdict.h"

namespace dtrain {

// share: of an update's time, in which a rank waited for data; NaN if it is not recorded. `rank` is
// the one that waited longest.
Verdict JudgeData(double share, int rank = 0);

struct NetworkInput {
  int ranks = 1;
  // Share of an update's time in which rank 0 waited for gradients.
  double share = std::numeric_limits<double>::quiet_NaN();
  // Share in which all ranks waited for them: what one waits beyond that, it waits for a slower
  // rank. NaN if the times of the other ranks are not recorded.
  double common_share = std::numeric_limits<double>::quiet_NaN();
  double step_seconds = 0.0;
  double bytes_each_way = 0.0;  // of a rank and an update; 0: not known
  bool is_bf16_wire = false;
};
Verdict JudgeNetwork(const NetworkInput& input);

struct SlowInput {
  int ranks = 1;
  bool is_on_gpu = false;  // times are those of the host then, which does not compute
  // The work of the slowest rank beyond that of the others, as a share of its own: the median over
  // the records. NaN if the times of the ranks are not recorded.
  double lost_share = std::numeric_limits<double>::quiet_NaN();
  int rank = 0;             // the one that was the slowest most often
  double same_share = 0.0;  // in that share of the records
};
Verdict JudgeSlowRank(const SlowInput& input);

struct OverheadInput {
  double seconds = 0.0;       // of all of them
  double wall_seconds = 0.0;  // training and evaluations
  int64_t count = 0;
  bool can_shorten = false;  // the program has the setting trainer.eval_max_sentences
};
Verdict JudgeCheckpoints(const OverheadInput& input);
Verdict JudgeEvaluations(const OverheadInput& input);

// share: of the processor time of rank 0's host that other programs used; NaN if not recorded.
Verdict JudgeOthers(double share);

// max_length: of data.max_length, 0 if it is not known.
Verdict JudgePreparation(const PreparationFacts& facts, double max_length);

// A rule whose record this run does not have.
Verdict NotRecorded(const std::string& id, const std::string& title, const std::string& missing);

}  // namespace dtrain

#endif  // DTRAIN_REPORT_SPEED_RULES_H_
