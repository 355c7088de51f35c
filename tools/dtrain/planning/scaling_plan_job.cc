// scaling_plan_job.cc - models laid out without memory, and other sources of a plan's numbers.
// SPDX-License-Identifier: Apache-2.0
#include "planning/scaling_plan_job.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "planning/estimate.h"

namespace dtrain {
namespace {

// Payload of an Ethernet line: 1448 bytes of TCP in 1538 on the wire.
constexpr double kPayload = 0.94;

// Gradients in buckets as GradientReducer cuts them. A bucket is ready when backward has computed
// the products of all its gradients.
std::vector<PlanBucket> CutIntoBuckets(const GradientShapes& gradients, int64_t bucket_bytes) {
  std::vector<GradientRange> ranges;
  std::vector<PlanParameter> parameters;
  std::vector<double> ready;  // elements of products until then
  double done = 0.0;
  for (const GradientShape& gradient : gradients) {
    done += gradient.product;
    const PlanParameter parameter{gradient.rows, gradient.columns};
    if (parameter.elements() == 0) continue;
    const int64_t begin = ranges.empty() ? 0 : ranges.back().end;
    ranges.push_back({"", begin, begin + parameter.elements()});
    parameters.push_back(parameter);
    ready.push_back(done);
  }
  const std::vector<int> bucket_of = BucketsOf(ranges, {.bucket_bytes = bucket_bytes});
  std::vector<PlanBucket> buckets(static_cast<size_t>(bucket_of.back()) + 1);
  for (size_t i = 0; i < parameters.size(); ++i) {
    PlanBucket& bucket = buckets[static_cast<size_t>(bucket_of[i])];
    bucket.parameters.push_back(parameters[i]);
    bucket.ready = ready[i] / done;
  }
  return buckets;
}

int PowerSgdRank(int rank, int64_t hidden_size) {
  return rank > 0 ? rank : static_cast<int>(std::clamp<int64_t>(hidden_size / 8, 1, 1024));
}

Status CheckWays(const TrainerOptions& trainer) {
  if (trainer.shard_optimizer) {
    return UsageError(
        "trainer.shard_optimizer: plans are of ranks that all update all weights; plan without it "
        "(trainer.shard_optimizer=false)");
  }
  if (trainer.sync_every > 1) {
    return UsageError(
        "trainer.sync_every: plans are of gradients that all ranks sum in every update; plan "
        "without it (trainer.sync_every=1 trainer.sync_every_start=0)");
  }
  return OkStatus();
}

using Json = nlohmann::json;

// A number that a measurement can give: finite and above 0. Json::exception where it is none.
double Measured(const Json& object, const char* key) {
  const double value = object.at(key).get<double>();
  if (std::isfinite(value) && value > 0.0) return value;
  throw Json::other_error::create(501, absl::StrCat(key, " is ", value, ", which nothing measures"),
                                  &object);
}

// The slower of what is known and a pair.
void TakeSlower(const Json& pair, std::optional<std::pair<double, double>>& slowest) {
  const double latency = Measured(pair, "latency_seconds");
  const double speed = Measured(pair, "bytes_per_second");
  if (!slowest) slowest.emplace(latency, speed);
  slowest->first = std::max(slowest->first, latency);
  slowest->second = std::min(slowest->second, speed);
}

// Bytes per second of a host, each way, in the largest allreduce of the sweep; 0 where hosts have
// different numbers of ranks.
double SweepSpeed(const Json& doctor) {
  const Json& hosts = doctor.at("hosts");
  const Json& sweep = doctor.at("allreduce");
  if (sweep.empty()) return 0.0;
  const int per_host = hosts.at(0).at("ranks").get<int>();
  const bool are_equal = std::all_of(hosts.begin(), hosts.end(), [&](const Json& host) {
    return host.at("ranks").get<int>() == per_host;
  });
  if (!are_equal) return 0.0;
  const double bytes =
      NetworkBytes(per_host > 1 ? PlanAlgorithm::kHierarchical : PlanAlgorithm::kFlat,
                   static_cast<int>(hosts.size()), per_host, Measured(sweep.back(), "bytes"));
  return bytes / Measured(sweep.back(), "seconds");
}

}  // namespace

double PlanModel::FlopsOfRank(int ranks) const {
  return flops_per_update * BusiestShare(texts_per_update, ranks);
}

std::vector<std::string> PlanModel::NotesOf(int ranks) const {
  const bool by_texts = texts_per_update > 0;
  const int64_t parts = by_texts ? texts_per_update : tokens_per_update;
  if (parts >= ranks) return {};
  return {absl::StrFormat(
      "an update has fewer %s (%d) than there are ranks (%d), so that some have nothing to do: "
      "raise trainer.%s",
      by_texts ? "texts" : "tokens", parts, ranks, by_texts ? "batch_size" : "tokens_per_batch")};
}

StatusOr<PlanModel> PlanModelOf(const google::protobuf::Message& config) {
  DT_ASSIGN_OR_RETURN(const Estimate estimate, EstimateRun(config, {}));
  const Workload& work = estimate.workload;
  DT_RETURN_IF_ERROR(CheckWays(work.trainer));
  const GradientReducerOptions& reducer = work.trainer.reducer;
  return PlanModel{CutIntoBuckets(work.gradients, reducer.bucket_bytes), estimate.flops_per_update,
                   PowerSgdRank(reducer.power_sgd.rank, work.hidden_size), work.texts_per_batch,
                   work.tokens_per_batch};
}

StatusOr<double> ParseNetwork(std::string_view text) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [unit_begin, error] = std::from_chars(text.data(), end, value);
  std::string_view unit(unit_begin, static_cast<size_t>(end - unit_begin));
  const auto drop = [&](std::string_view suffix) {
    if (unit.ends_with(suffix)) unit.remove_suffix(suffix.size());
  };
  drop("/s");
  drop("it");  // of "bit"
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"Mb", 1e6 * kPayload / 8}, {"Gb", 1e9 * kPayload / 8}, {"MB", 1e6}, {"GB", 1e9}};
  const auto* const found = std::find_if(std::begin(kUnits), std::end(kUnits),
                                         [&](const auto& entry) { return entry.first == unit; });
  if (error != std::errc() || found == std::end(kUnits) || !(value > 0.0) ||
      !std::isfinite(value)) {
    return UsageError(absl::StrCat("the network \"", ToAbsl(text.substr(0, 40)),
                                   "\" is no speed; it is a line's (200Mb, 1Gb, 25Gb) or bytes of "
                                   "payload (117MB/s, 3GB/s)"));
  }
  return value * found->second;
}

Status CalibrateFromDoctor(const std::string& path, int nodes, PlanNetwork& network,
                           PlanTimes& times) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored) || std::filesystem::is_directory(path, ignored)) {
    return UsageError(path + ": is no file; give what dtrain doctor --output wrote");
  }
  DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  const Json json = internal::ParseJson<Json>(text);
  if (!json.is_object()) {
    return UsageError(path + ": is no JSON object; give what dtrain doctor --output wrote");
  }
  std::optional<std::pair<double, double>> within;
  std::optional<std::pair<double, double>> between;
  double in_sweep = 0.0;
  try {
    in_sweep = SweepSpeed(json);
    // Older files lack them, or have one speed for both, of PowerSGD's work as a whole: a column of
    // a factor counted as a byte.
    if (json.contains("memory_bytes_per_second")) {
      times.memory_bytes_per_second = Measured(json, "memory_bytes_per_second");
      times.low_rank_flops_per_second =
          json.contains("low_rank_flops_per_second")
              ? Measured(json, "low_rank_flops_per_second")
              : PowerSgdWorkOf(1, 1).flops * times.memory_bytes_per_second;
    }
    for (const Json& pair : json.at("pairs")) {
      TakeSlower(pair, pair.at("first") == pair.at("second") ? within : between);
    }
  } catch (const Json::exception& error) {
    return StorageError(
        absl::StrCat(path, ": is not what dtrain doctor --output writes (", error.what(), ")"));
  }
  if (nodes > 1 && !between) {
    return UsageError(path +
                      ": was measured on one host, the plan is for several; run dtrain doctor on "
                      "two, or give --network");
  }
  if (between) {
    network.latency_seconds = between->first;
    network.bytes_per_second = std::max(between->second, in_sweep);
  }
  if (within) std::tie(network.host_latency_seconds, network.host_bytes_per_second) = *within;
  return OkStatus();
}

}  // namespace dtrain
