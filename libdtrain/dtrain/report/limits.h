// limits.h - every threshold of the report's rules, with what it is a threshold of.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_REPORT_LIMITS_H_
#define DTRAIN_REPORT_LIMITS_H_

#include <array>
#include <string_view>

namespace dtrain {

struct Limit {
  std::string_view meaning;  // for the page, which lists all of them
  double value;

  constexpr operator double() const { return value; }
};

namespace limits {

// Ended without a word.
inline constexpr Limit kSilence{"seconds without a sign of life: ended without a word, at least",
                                60};
inline constexpr Limit kSilentPeriods{"and at least so many periods of records", 20};

// Learning.
inline constexpr Limit kGainSmall{
    "gain of half as long again, in standard errors of a difference: fully trained below", 1};
inline constexpr Limit kGainModel{"error of the extrapolation itself, as a share of the gain",
                                  0.15};
inline constexpr Limit kRise{"rise of the dev loss, in standard errors: it has risen above", 2};
inline constexpr Limit kSmallDev{"sentences of an evaluation: few below", 500};
inline constexpr Limit kWarmupLong{"share of the updates that is warm-up: long above", 0.25};
inline constexpr Limit kRateFell{"share of its peak at which the rate ended: fell below", 0.2};

// Stability.
inline constexpr Limit kSpikeDeviations{"robust deviations above the records before: a spike", 6};
inline constexpr Limit kSpikeShare{"and at least this share above their median", 0.05};
inline constexpr Limit kSpikeWindow{"records before, of which the median is taken", 50};
inline constexpr Limit kManySpikes{"spikes: change something from", 5};
inline constexpr Limit kDiverged{"share by which the loss ended above its best: diverged above",
                                 0.1};
inline constexpr Limit kDivergedDeviations{"and in standard errors", 5};
inline constexpr Limit kSkipped{"share of skipped updates: many above", 0.01};
inline constexpr Limit kClippedOften{"share of clipped updates: worth knowing above", 0.5};
inline constexpr Limit kClippedAlways{"share of clipped updates: change something above", 0.9};
inline constexpr Limit kClipRecords{"records after warm-up that the share needs", 20};
inline constexpr Limit kClipMeasured{"records that make it measured", 100};

// Time.
inline constexpr Limit kDataNote{"share of an update that waits for data: worth knowing from",
                                 0.05};
inline constexpr Limit kDataBad{"share of an update that waits for data: a problem from", 0.2};
inline constexpr Limit kNetworkNote{
    "share of an update that waits for gradients: worth knowing from", 0.05};
inline constexpr Limit kNetworkBad{"share of an update that waits for gradients: a problem from",
                                   0.2};
inline constexpr Limit kCheckpointNote{
    "share of the time that writes checkpoints: worth knowing from", 0.02};
inline constexpr Limit kCheckpointWarn{"share of the time that writes checkpoints: too much from",
                                       0.05};
inline constexpr Limit kEvaluationNote{"share of the time that evaluates: worth knowing from", 0.1};
inline constexpr Limit kEvaluationWarn{"share of the time that evaluates: too much from", 0.25};
inline constexpr Limit kHoursBetweenFailures{
    "hours between failures, for the advice on checkpoints", 24};

inline constexpr Limit kLost{"share of the clock's time lost by restarts: worth knowing above",
                             0.05};
inline constexpr Limit kOthersNote{"share of other programs in processor time: worth knowing above",
                                   0.05};
inline constexpr Limit kOthersWarn{"share of other programs in processor time: change above", 0.15};

// Data.
inline constexpr Limit kUnknown{"share of unknown pieces: worth knowing above", 0.001};
inline constexpr Limit kCut{"share of cut pairs: worth knowing above", 0.005};
inline constexpr Limit kDropped{"share of dropped pairs: worth knowing above", 0.1};
inline constexpr Limit kPiecesPerWord{"pieces a word: a small vocabulary above", 2.5};

inline constexpr std::array kAll = {kSilence,
                                    kSilentPeriods,
                                    kGainSmall,
                                    kGainModel,
                                    kRise,
                                    kSmallDev,
                                    kWarmupLong,
                                    kRateFell,
                                    kSpikeDeviations,
                                    kSpikeShare,
                                    kSpikeWindow,
                                    kManySpikes,
                                    kDiverged,
                                    kDivergedDeviations,
                                    kSkipped,
                                    kClippedOften,
                                    kClippedAlways,
                                    kClipRecords,
                                    kClipMeasured,
                                    kDataNote,
                                    kDataBad,
                                    kNetworkNote,
                                    kNetworkBad,
                                    kCheckpointNote,
                                    kCheckpointWarn,
                                    kEvaluationNote,
                                    kEvaluationWarn,
                                    kHoursBetweenFailures,
                                    kLost,
                                    kOthersNote,
                                    kOthersWarn,
                                    kUnknown,
                                    kCut,
                                    kDropped,
                                    kPiecesPerWord};

}  // namespace limits
}  // namespace dtrain

#endif  // DTRAIN_REPORT_LIMITS_H_
