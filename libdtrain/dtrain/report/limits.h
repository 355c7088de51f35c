// limits.h - every threshold of the report's rules, with what it is a threshold of.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_REPORT_LIMITS_H_
#define DTRAIN_REPORT_LIMITS_H_

#include <array>
#include <string_view>

namespace dtrain {

struct Limit {
  // For the page, which lists all of them: what it decides, and what it is compared with.
  std::string_view meaning;
  double value;

  constexpr operator double() const { return value; }
};

namespace limits {

// Ended without a word.
inline constexpr Limit kSilence{"ended without a word: silent for at least (seconds)", 60};
inline constexpr Limit kSilentPeriods{
    "ended without a word: silent for at least (times the usual interval between records)", 20};
inline constexpr Limit kSilentPauses{
    "ended without a word: silent for at least (times the longest evaluation or checkpoint)", 3};
inline constexpr Limit kSilentPreparing{
    "not known whether it still prepares data: silent for more than (seconds)", 3600};

// Learning.
inline constexpr Limit kGainSmall{
    "fully trained: gain from training half as long again is below (standard errors of a "
    "difference)",
    1};
inline constexpr Limit kGainModel{
    "fully trained: error of the extrapolation itself (share of the gain)", 0.15};
inline constexpr Limit kRise{
    "overfitting: rise of the dev loss is above (standard errors of a difference)", 2};
inline constexpr Limit kSmallDev{"small dev set: sentences of an evaluation are below", 500};
inline constexpr Limit kWarmupLong{"long warm-up: its share of the updates is above", 0.25};
inline constexpr Limit kUpdateLarge{
    "the learning rate is high: an update moves weights by more than (share of their norm)", 1e-2};
inline constexpr Limit kUpdateSmall{
    "the learning rate is low: an update moves weights by less than (share of their norm)", 1e-5};
inline constexpr Limit kRateFell{
    "the learning rate fell: at the end its share of the peak is at most", 0.2};

// Stability.
inline constexpr Limit kSpikeDeviations{
    "a spike: above the median of the records before by more than (robust deviations)", 6};
inline constexpr Limit kSpikeShare{"a spike: above that median by more than (share of it)", 0.05};
inline constexpr Limit kSpikeWindow{"a spike: records of which the median is taken", 50};
inline constexpr Limit kManySpikes{"spikes: change something from (number of spikes)", 5};
inline constexpr Limit kDiverged{"diverged: the loss ended above its best by more than (share)",
                                 0.1};
inline constexpr Limit kDivergedDeviations{
    "diverged: the loss ended above its best by more than (standard errors)", 5};
inline constexpr Limit kSkipped{"many skipped updates: their share is above", 0.01};
inline constexpr Limit kClippedOften{"clipped updates: worth knowing if their share is above", 0.5};
inline constexpr Limit kClippedAlways{"clipped updates: change something if their share is above",
                                      0.9};
inline constexpr Limit kClipRecords{"clipped updates: records after warm-up that their share needs",
                                    20};
inline constexpr Limit kClipMeasured{
    "clipped updates: records from which their share is measured, not likely", 100};

// Time.
inline constexpr Limit kDataNote{"waiting for data: worth knowing from (share of an update)", 0.05};
inline constexpr Limit kDataBad{"waiting for data: a problem from (share of an update)", 0.2};
inline constexpr Limit kNetworkNote{
    "waiting for gradients: worth knowing from (share of an update)", 0.05};
inline constexpr Limit kNetworkBad{"waiting for gradients: a problem from (share of an update)",
                                   0.2};
inline constexpr Limit kSlowNote{
    "a slow rank: worth knowing if the share of an update lost to it is above", 0.05};
inline constexpr Limit kSlowBad{
    "a slow rank: a problem if the share of an update lost to one rank is above", 0.15};
inline constexpr Limit kSlowSame{"a slow rank: the same one in more than (share of the records)",
                                 0.5};
inline constexpr Limit kSlowSameOfTwo{
    "a slow rank of two: the same one in more than (share of the records)", 0.8};
inline constexpr Limit kCheckpointNote{"checkpoints: worth knowing from (share of the time)", 0.02};
inline constexpr Limit kCheckpointWarn{"checkpoints: change something from (share of the time)",
                                       0.05};
inline constexpr Limit kEvaluationNote{"evaluations: worth knowing from (share of the time)", 0.1};
inline constexpr Limit kEvaluationWarn{"evaluations: change something from (share of the time)",
                                       0.25};
inline constexpr Limit kHoursBetweenFailures{"advice on checkpoints: time between failures (hours)",
                                             24};

inline constexpr Limit kLost{
    "restarts: worth knowing if the time they lost is above (share of the time by the clock)",
    0.05};
inline constexpr Limit kOthersNote{
    "other programs: worth knowing above (share of the processor time)", 0.05};
inline constexpr Limit kOthersWarn{
    "other programs: change something above (share of the processor time)", 0.15};

// Data.
inline constexpr Limit kUnknown{"unknown pieces: worth knowing if their share is above", 0.001};
inline constexpr Limit kCut{"cut pairs: worth knowing if their share is above", 0.005};
inline constexpr Limit kDropped{"dropped pairs: worth knowing if their share is above", 0.1};
inline constexpr Limit kPiecesPerWord{"small vocabulary: pieces a word are above", 2.5};

inline constexpr std::array kAll = {kSilence,
                                    kSilentPeriods,
                                    kSilentPauses,
                                    kSilentPreparing,
                                    kGainSmall,
                                    kGainModel,
                                    kRise,
                                    kSmallDev,
                                    kWarmupLong,
                                    kUpdateLarge,
                                    kUpdateSmall,
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
                                    kSlowNote,
                                    kSlowBad,
                                    kSlowSame,
                                    kSlowSameOfTwo,
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
