// scaling_plan_job.h - what a plan starts from: a configuration, a network, doctor's figures.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_PLANNING_SCALING_PLAN_JOB_H_
#define DTRAIN_PLANNING_SCALING_PLAN_JOB_H_

#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "planning/scaling_plan.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace dtrain {

// A model's gradients as they would travel, and what an update costs. Nothing is allocated.
struct PlanModel {
  std::vector<PlanBucket> buckets;
  double flops_per_update = 0.0;  // of all ranks, without recomputation
  int power_sgd_rank = 0;         // the configuration's, or an eighth of the hidden size
  int64_t texts_per_update = 0;   // where updates are so many texts; else 0
  int64_t tokens_per_update = 0;  // of all ranks; of translation target tokens

  // Of the busiest of so many ranks: with more ranks than texts one has a whole text still.
  double FlopsOfRank(int ranks) const;
  // That an update has too little for so many ranks, where it has.
  std::vector<std::string> NotesOf(int ranks) const;
};
// The model of a program's configuration (tasks/registry.h). A BERT's texts are taken to be
// data.max_length long, so that the operations are an upper bound. UsageError for
// trainer.shard_optimizer and trainer.sync_every: all ways of a plan sum gradients in every update,
// after which each rank updates all weights.
StatusOr<PlanModel> PlanModelOf(const google::protobuf::Message& config);

// "1Gb", "200Mbit/s": the speed of a line, of which 94 % carry payload (an MTU of 1500).
// "117MB/s": payload itself. Bytes per second.
StatusOr<double> ParseNetwork(std::string_view text);

// Takes over what `dtrain doctor --output=FILE` measured: the slowest pair of hosts, or what the
// largest allreduce carried between hosts where that is more, the slowest pair of ranks of one
// host, and what a rank adds and multiplies at. StorageError where the file cannot be read or
// is not doctor's; UsageError where doctor saw one host and the plan is for more.
Status CalibrateFromDoctor(const std::string& path, int nodes, PlanNetwork& network,
                           PlanTimes& times);

}  // namespace dtrain

#endif  // DTRAIN_PLANNING_SCALING_PLAN_JOB_H_
