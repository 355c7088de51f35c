// scaling_plan_test.cc - predictions against figures worked out by hand, and broken inputs.
// SPDX-License-Identifier: Apache-2.0
#include "planning/scaling_plan.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "dtrain/classification.pb.h"
#include "dtrain/models/seq2seq_costs.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/squad.pb.h"
#include "dtrain/tasks/classification/config.h"
#include "dtrain/tasks/classification/head.h"
#include "dtrain/tasks/pretraining/head.h"
#include "dtrain/tasks/question_answering/head.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "planning/scaling_plan_job.h"
#include "testing/file_testing.h"

namespace dtrain {
namespace {

constexpr double kBase = 60.9e6;             // parameters of Transformer base with 32,768 pieces
constexpr double kBig = 209.9e6;             // of big
constexpr double kGigabit = 0.94 * 1e9 / 8;  // payload of a 1 Gb/s line, bytes per second

// Equal buckets of matrices that become ready evenly.
std::vector<PlanBucket> EvenBuckets(double elements, int count = 10) {
  std::vector<PlanBucket> buckets;
  for (int i = 0; i < count; ++i) {
    const auto columns = static_cast<int64_t>(elements / count / 512);
    buckets.push_back({.parameters = {{512, columns}}, .ready = (i + 1.0) / count});
  }
  return buckets;
}

// 2 nodes x 2 V100s, 0.145 s of compute, of which two thirds are backward.
PlanJob FourRanks(double gigabits, double elements = kBase) {
  return {.nodes = 2,
          .ranks_per_node = 2,
          .buckets = EvenBuckets(elements),
          .times = {.forward_seconds = 0.145 / 3,
                    .backward_seconds = 0.145 * 2 / 3,
                    .memory_bytes_per_second = 900e9,
                    .low_rank_flops_per_second = 7200e9},
          .network = {.bytes_per_second = gigabits * kGigabit,
                      .latency_seconds = 50e-6,
                      .host_bytes_per_second = 10e9}};
}

// FourRanks() whose exchanges take no time.
PlanJob OnInstantNetwork() {
  PlanJob job = FourRanks(1);
  job.network = {.bytes_per_second = 1e18,
                 .latency_seconds = 0.0,
                 .message_seconds = 0.0,
                 .host_bytes_per_second = 1e18,
                 .host_latency_seconds = 0.0};
  return job;
}

PlanWay Way(PlanAlgorithm algorithm, DType wire, int accumulation = 1, int rank = 0) {
  return {algorithm, wire, accumulation, rank};
}
constexpr PlanAlgorithm kRing = PlanAlgorithm::kRing;
constexpr PlanAlgorithm kFlat = PlanAlgorithm::kFlat;
constexpr PlanAlgorithm kHierarchical = PlanAlgorithm::kHierarchical;
constexpr DType kFp32 = DType::kFloat32;
constexpr DType kFp16 = DType::kFloat16;

TEST_CASE("a node's bytes per update are those of the algorithm") {
  // 2 (N - 1) / N S with N = 4, in MB.
  CHECK(NetworkBytes(kRing, 2, 2, 2 * kBase) / 1e6 == Approx(183).epsilon(0.03));
  CHECK(NetworkBytes(kRing, 2, 2, 4 * kBase) / 1e6 == Approx(365).epsilon(0.03));
  CHECK(NetworkBytes(kRing, 2, 2, 2 * kBig) / 1e6 == Approx(630).epsilon(0.03));
  CHECK(NetworkBytes(kRing, 2, 2, 4 * kBig) / 1e6 == Approx(1259).epsilon(0.03));
  // 2 (m - 1) / m S with m = 2; 2 g (N - g) / N S with g = 2.
  CHECK(NetworkBytes(kHierarchical, 2, 2, 100.0) == Approx(100));
  CHECK(NetworkBytes(kFlat, 2, 2, 100.0) == Approx(200));
  // One rank on each node: all ways are one.
  for (const PlanAlgorithm algorithm : {kRing, kFlat, kHierarchical}) {
    CHECK(NetworkBytes(algorithm, 8, 1, 100.0) == Approx(175));
    CHECK(NetworkBytes(algorithm, 1, 8, 100.0) == 0.0);
  }
}

TEST_CASE("the load of the network is bytes by time") {
  const auto load = [](double elements, double bytes, double seconds) {
    return NetworkBytes(kRing, 2, 2, bytes * elements) / seconds / 1e6;
  };
  // MB/s at updates of 1.28 s and of 1.7 s.
  CHECK(load(kBase, 2, 1.28) == Approx(143).epsilon(0.03));
  CHECK(load(kBase, 4, 1.28) == Approx(285).epsilon(0.03));
  CHECK(load(kBig, 2, 1.28) == Approx(492).epsilon(0.03));
  CHECK(load(kBig, 4, 1.28) == Approx(984).epsilon(0.03));
  CHECK(load(kBase, 2, 1.7) == Approx(107).epsilon(0.03));
  CHECK(load(kBase, 4, 1.7) == Approx(215).epsilon(0.03));
  CHECK(load(kBig, 2, 1.7) == Approx(370).epsilon(0.03));
  CHECK(load(kBig, 4, 1.7) == Approx(741).epsilon(0.03));
}

TEST_CASE("updates of Transformer base on 1 and 2 Gb/s take the time worked out by hand") {
  const auto seconds = [](double gigabits, const PlanWay& way) {
    return PlanStep(FourRanks(gigabits), way).seconds / way.accumulation;
  };
  // T_forward + r_1 + bytes / B: 0.048 + 0.010 + 365.4 MB / 117.5 MB/s, and so on.
  CHECK(seconds(1, Way(kRing, kFp32)) == Approx(3.19).epsilon(0.03));
  CHECK(seconds(2, Way(kRing, kFp32)) == Approx(1.62).epsilon(0.03));
  CHECK(seconds(1, Way(kRing, kFp16)) == Approx(1.63).epsilon(0.03));
  CHECK(seconds(2, Way(kRing, kFp16)) == Approx(0.85).epsilon(0.03));
  CHECK(seconds(1, Way(kHierarchical, kFp16)) == Approx(1.11).epsilon(0.03));
  CHECK(seconds(2, Way(kHierarchical, kFp16)) == Approx(0.58).epsilon(0.03));
  CHECK(seconds(1, Way(kHierarchical, kFp16, 4)) == Approx(0.38).epsilon(0.03));
  CHECK(seconds(1, Way(kHierarchical, kFp16, 16)) == Approx(0.20).epsilon(0.03));
  const PlannedStep step = PlanStep(FourRanks(1), Way(kRing, kFp32));
  CHECK(step.efficiency() == Approx(0.05).margin(0.005));
  CHECK(step.limit == "network");
}

TEST_CASE("an exchange alone takes its bytes at the network's speed") {
  // Seconds of a ring of four ranks in 16 bits on 1 and 10 Gb/s.
  struct Case {
    double parameters, one, ten;
  };
  for (const Case& c : {Case{kBase, 1.55, 0.155}, Case{kBig, 5.4, 0.54}, Case{109.5e6, 2.8, 0.28},
                        Case{335.1e6, 8.6, 0.86}}) {
    CHECK(PlanStep(FourRanks(1, c.parameters), Way(kRing, kFp16)).exchange_seconds ==
          Approx(c.one).epsilon(0.03));
    CHECK(PlanStep(FourRanks(10, c.parameters), Way(kRing, kFp16)).exchange_seconds ==
          Approx(c.ten).epsilon(0.05));
  }
}

TEST_CASE("PowerSGD sends two factors of matrices, where that is less") {
  const PlanBucket bucket{.parameters = {{512, 2048}, {1, 2048}, {4, 4}}};
  CHECK(TravellingElements(bucket, 0) == 512 * 2048 + 2048 + 16);
  CHECK(TravellingElements(bucket, 4) == 4 * (512 + 2048) + 2048 + 16);
  const PlannedStep plain = PlanStep(FourRanks(1), Way(kHierarchical, kFp32));
  const PlannedStep low = PlanStep(FourRanks(1), Way(kHierarchical, kFp32, 1, 4));
  CHECK(low.network_bytes < plain.network_bytes / 50);
  CHECK(low.seconds < plain.seconds / 5);
  // 0.16 s where all of it overlaps.
  CHECK(low.seconds == Approx(0.16).epsilon(0.1));
}

TEST_CASE("a part of the encoding runs beside the network, in two fifths of its time at most") {
  struct Case {
    PlanWay way;
    double beside;
  };
  for (const auto& [way, beside] : {Case{Way(kFlat, DType::kBFloat16, 1, 0), 1.0 / 3.0},
                                    Case{Way(kFlat, kFp32, 1, 4), 2.0 / 3.0},
                                    Case{Way(kHierarchical, kFp32, 1, 4), 1.0 / 2.0}}) {
    INFO(way.Name());
    PlanJob job = OnInstantNetwork();
    job.times.memory_bytes_per_second = 5e9;
    const double whole = PlanStep(job, way).encode_seconds;
    CHECK(whole > 0.0);
    job.network.bytes_per_second = 1e6;
    CHECK(PlanStep(job, way).encode_seconds == Approx((1.0 - beside) * whole));
    // A network as slow as the part, of which two fifths are left for it.
    job.times.backward_seconds = 0.0;
    job.network.bytes_per_second *= PlanStep(job, way).exchange_seconds / (beside * whole);
    const PlannedStep quick = PlanStep(job, way);
    CHECK(quick.encode_seconds == Approx(whole - 0.4 * quick.exposed_seconds));
    CHECK(quick.encode_seconds > (1.0 - beside) * whole);
    // Backward hides some of it: less is left for the encoding.
    job.times.backward_seconds = quick.exposed_seconds / 2;
    const PlannedStep hidden = PlanStep(job, way);
    CHECK(hidden.exposed_seconds < quick.exposed_seconds);
    CHECK(hidden.encode_seconds == Approx(whole - 0.4 * hidden.exposed_seconds));
  }
}

TEST_CASE("PowerSGD's encoding is memory by the element, and products by the column as well") {
  PlanJob job = OnInstantNetwork();
  double elements = 0.0;
  for (const PlanBucket& bucket : job.buckets) {
    elements += static_cast<double>(TravellingElements(bucket, 0));
  }
  const auto encode = [&](double memory, double products, int rank) {
    job.times.memory_bytes_per_second = memory;
    job.times.low_rank_flops_per_second = products;
    return PlanStep(job, Way(kFlat, kFp32, 1, rank)).encode_seconds;
  };
  CHECK(encode(5e9, 1e18, 4) == Approx(20.0 * elements / 5e9));
  CHECK(encode(5e9, 1e18, 32) == Approx(20.0 * elements / 5e9));
  CHECK(encode(1e18, 5e10, 4) == Approx(8.0 * 4 * elements / 5e10));
  CHECK(encode(1e18, 5e10, 32) == Approx(8.0 * 32 * elements / 5e10));
}

TEST_CASE("the ranks of a node share PowerSGD's encoding and add whole gradients in memory") {
  PlanJob job = OnInstantNetwork();
  job.times.memory_bytes_per_second = 5e9;
  double elements = 0.0;
  for (const PlanBucket& bucket : job.buckets) {
    elements += static_cast<double>(TravellingElements(bucket, 0));
  }
  const PlannedStep flat = PlanStep(job, Way(kFlat, kFp32, 1, 4));
  const PlannedStep shared = PlanStep(job, Way(kHierarchical, kFp32, 1, 4));
  // 36 bytes for each float that another rank of the node has, as the memory has them.
  CHECK(shared.encode_seconds ==
        Approx(flat.encode_seconds / 2 + 36.0 / 2 * elements / 5e9).epsilon(1e-6));
}

TEST_CASE("a better network, more overlap and fewer bytes are never slower") {
  for (const PlanWay& way : AllWays(FourRanks(1), kFlat, 4)) {
    INFO(way.Name());
    double before = 1e9;
    for (const double gigabits : {0.1, 1.0, 10.0, 100.0}) {
      const PlannedStep step = PlanStep(FourRanks(gigabits), way);
      CHECK(step.seconds <= before);
      CHECK(step.seconds >= step.compute_seconds);
      CHECK(step.exposed_seconds <= step.exchange_seconds);
      before = step.seconds;
    }
    PlanJob job = FourRanks(5);
    before = 1e9;
    for (const double overlap : {0.0, 0.5, 1.0}) {
      job.times.overlap = overlap;
      CHECK(PlanStep(job, way).seconds <= before);
      before = PlanStep(job, way).seconds;
    }
    job.network.latency_seconds *= 100;
    CHECK(PlanStep(job, way).seconds > before);
    before = 0.0;
    for (const int nodes : {2, 4, 64, 1024}) {
      job = FourRanks(1);
      job.nodes = nodes;
      CHECK(PlanStep(job, way).seconds >= before);
      before = PlanStep(job, way).seconds;
    }
  }
}

TEST_CASE("what limits an update is named") {
  PlanJob job = FourRanks(10000);
  job.network.host_bytes_per_second = 1e15;
  job.network.latency_seconds = job.network.message_seconds = 0;
  CHECK(PlanStep(job, Way(kHierarchical, kFp32)).limit == "compute");
  CHECK(PlanStep(FourRanks(0.1), Way(kHierarchical, kFp32)).limit == "network");
  job.network.latency_seconds = 1.0;
  CHECK(PlanStep(job, Way(kHierarchical, kFp32)).limit == "latency");
  job.network.latency_seconds = 0.0;
  job.network.host_bytes_per_second = 1e8;
  CHECK(PlanStep(job, Way(kHierarchical, kFp32)).limit == "host memory");
  job.network.host_bytes_per_second = 1e15;
  job.times.memory_bytes_per_second = 1e8;
  CHECK(PlanStep(job, Way(kHierarchical, kFp16)).limit == "encoding");
  job.nodes = job.ranks_per_node = 1;
  CHECK(PlanStep(job, Way(kFlat, kFp32)).seconds == Approx(0.145));
}

int64_t TravellingElements(const PlanModel& model, int power_sgd_rank) {
  int64_t elements = 0;
  for (const PlanBucket& bucket : model.buckets) {
    elements += TravellingElements(bucket, power_sgd_rank);
  }
  return elements;
}

// As the exchange itself has it: matrices as factors where these are at most half, but embeddings.
int64_t FactoredElements(const ParameterSet& parameters, int rank) {
  int64_t elements = 0;
  for (const Parameter* parameter : parameters.in_backward_order()) {
    const Shape& shape = parameter->shape();
    const int64_t factors = shape.rank() == 2 ? rank * (shape[0] + shape[1]) : 0;
    const bool whole = factors == 0 || parameter->is_embedding() || 2 * factors > shape.elements();
    elements += whole ? shape.elements() : factors;
  }
  return elements;
}

TEST_CASE("the planned gradients are those of the models, in buckets that fill in order") {
  proto::NmtConfig nmt;
  nmt.mutable_data()->set_vocab_size(1000);
  nmt.mutable_model()->set_hidden_size(64);
  nmt.mutable_model()->set_ffn_size(256);
  for (const bool tied : {true, false}) {
    for (const auto norm : {proto::ModelConfig::pre, proto::ModelConfig::post}) {
      nmt.mutable_model()->set_tie_embeddings(tied);
      nmt.mutable_model()->set_tie_output(tied);
      nmt.mutable_model()->set_norm(norm);
      const StatusOr<PlanModel> model = PlanModelOf(nmt);
      REQUIRE(model.ok());
      Seq2SeqOptions options;
      options.vocab_size = 1000;
      options.encoder_layers = nmt.model().encoder_layers();
      options.decoder_layers = nmt.model().decoder_layers();
      options.hidden_size = nmt.model().hidden_size();
      options.ffn_size = nmt.model().ffn_size();
      options.pre_norm = norm == proto::ModelConfig::pre;
      options.tie_embeddings = options.tie_output = tied;
      double before = 0.0;
      for (const PlanBucket& bucket : model->buckets) {
        CHECK(bucket.ready >= before);
        before = bucket.ready;
      }
      CHECK(before == Approx(1.0));
      CHECK(TravellingElements(*model, 0) == CountParameters(options).total());
      Seq2SeqTransformer built(options);
      built.parameters().Allocate({}, DType::kFloat32, /*seed=*/1);
      CHECK(TravellingElements(*model, 8) == FactoredElements(built.parameters(), 8));
      CHECK(model->flops_per_update > 0.0);
    }
  }
  proto::ClassificationConfig bert;
  const StatusOr<PlanModel> model = PlanModelOf(bert);
  REQUIRE(model.ok());
  CHECK(TravellingElements(*model, 0) == 109483778);  // BertForSequenceClassification, base
  bert.mutable_model()->set_vocab_size(1000);
  bert.mutable_model()->set_hidden_size(96);
  bert.mutable_model()->set_num_layers(2);
  const StatusOr<PlanModel> small = PlanModelOf(bert);
  REQUIRE(small.ok());
  BertClassifier built(ClassifierOptionsOf(bert));
  built.parameters().Allocate({}, DType::kFloat32, /*seed=*/1);
  CHECK(TravellingElements(*small, 12) == FactoredElements(built.parameters(), 12));
  CHECK(small->power_sgd_rank == 12);
  // Texts are not cut: of 32 on 64 ranks the busiest has one.
  CHECK(small->texts_per_update == 32);
  CHECK(small->FlopsOfRank(4) == Approx(small->flops_per_update / 4));
  CHECK(small->FlopsOfRank(64) == Approx(small->flops_per_update / 32));
}

// A small BERT of any program, with some of its keys set to what makes a difference.
template <typename Config>
Config SmallBert() {
  Config config;
  config.mutable_model()->set_vocab_size(1000);
  config.mutable_model()->set_hidden_size(96);
  config.mutable_model()->set_num_layers(2);
  config.mutable_trainer()->set_bucket_mib(0.1f);
  return config;
}

// That a plan has the gradients of the model whose parameters these are, in buckets that fill.
void CheckGradients(const StatusOr<PlanModel>& model, ParameterSet& parameters) {
  REQUIRE(model.ok());
  parameters.Allocate({}, DType::kFloat32, /*seed=*/1);
  CHECK(TravellingElements(*model, 0) == parameters.num_elements());
  CHECK(TravellingElements(*model, 12) == FactoredElements(parameters, 12));
  CHECK(model->power_sgd_rank == 12);
  CHECK(model->buckets.size() > 3);
  double before = 0.0;
  for (const PlanBucket& bucket : model->buckets) {
    CHECK(bucket.ready >= before);
    before = bucket.ready;
  }
  CHECK(before == Approx(1.0));
}

TEST_CASE("the planned gradients of BERT are those of the program's model") {
  const auto squad = SmallBert<proto::SquadConfig>();
  BertQuestionAnswering answers(EncoderOptionsOf(squad.model()));
  CheckGradients(PlanModelOf(squad), answers.parameters());
  for (const bool next_sentence : {true, false}) {
    auto pretrain = SmallBert<proto::PretrainConfig>();
    pretrain.mutable_data()->set_next_sentence(next_sentence);
    BertPretraining guesses(
        {.bert = EncoderOptionsOf(pretrain.model()), .next_sentence = next_sentence});
    CheckGradients(PlanModelOf(pretrain), guesses.parameters());
  }
}

TEST_CASE("settings that no way of a plan has are refused by name") {
  proto::NmtConfig nmt;
  nmt.mutable_data()->set_vocab_size(1000);
  auto squad = SmallBert<proto::SquadConfig>();
  const auto refused = [](const auto& config, const std::string& why) {
    const Status status = PlanModelOf(config).status();
    CHECK(status.code() == ExitCode::kUsage);
    CHECK_THAT(std::string(status.message()), Catch::Contains(why));
  };
  REQUIRE(PlanModelOf(nmt).ok());
  nmt.mutable_trainer()->set_shard_optimizer(true);
  refused(nmt, "trainer.shard_optimizer: plans are of ranks that all update all weights");
  squad.mutable_trainer()->set_sync_every(5);
  squad.mutable_trainer()->set_sync_every_start(100);
  refused(squad, "trainer.sync_every: plans are of gradients that all ranks sum in every update");
}

TEST_CASE("a plan notes updates of less than a token or a text for each rank") {
  proto::NmtConfig nmt;
  nmt.mutable_data()->set_vocab_size(1000);
  const StatusOr<PlanModel> model = PlanModelOf(nmt);
  REQUIRE(model.ok());
  CHECK(model->NotesOf(4096).empty());
  PlanJob job = FourRanks(1);
  job.notes = model->NotesOf(8192);
  REQUIRE(job.notes.size() == 1);
  CHECK_THAT(job.notes[0], Catch::Contains("fewer tokens (4096) than there are ranks (8192)") &&
                               Catch::Contains("raise trainer.tokens_per_batch"));
  const std::vector<PlanWay> ways = AllWays(job, kFlat, 0);
  CHECK_THAT(PlanText(job, ways), Catch::EndsWith("note  " + job.notes[0] + "\n"));
  const nlohmann::json json = nlohmann::json::parse(PlanJson(job, ways));
  CHECK(json.at("notes").get<std::vector<std::string>>() == job.notes);

  auto bert = SmallBert<proto::ClassificationConfig>();  // of 32 texts per update
  const StatusOr<PlanModel> by_texts = PlanModelOf(bert);
  REQUIRE(by_texts.ok());
  CHECK(by_texts->NotesOf(32).empty());
  REQUIRE(by_texts->NotesOf(33).size() == 1);
  CHECK_THAT(by_texts->NotesOf(33)[0], Catch::Contains("raise trainer.batch_size"));
  bert.mutable_trainer()->set_tokens_per_batch(1000);
  const StatusOr<PlanModel> by_tokens = PlanModelOf(bert);
  REQUIRE(by_tokens.ok());
  CHECK(by_tokens->NotesOf(1000).empty());
  REQUIRE(by_tokens->NotesOf(1001).size() == 1);
  CHECK_THAT(by_tokens->NotesOf(1001)[0], Catch::Contains("raise trainer.tokens_per_batch"));
}

TEST_CASE("networks are lines or payload, and anything else is refused") {
  CHECK(ParseNetwork("1Gb").value() == Approx(117.5e6));
  CHECK(ParseNetwork("200Mbit/s").value() == Approx(23.5e6));
  CHECK(ParseNetwork("2.5Gb/s").value() == Approx(293.75e6));
  CHECK(ParseNetwork("117MB/s").value() == Approx(117e6));
  CHECK(ParseNetwork("3GB").value() == Approx(3e9));
  for (const char* text : {"", "fast", "1", "0Gb", "-1Gb", "1kb", "infGb"}) {
    INFO(text);
    CHECK(ParseNetwork(text).status().code() == ExitCode::kUsage);
  }
}

TEST_CASE("doctor's slowest pairs take the place of the network's defaults") {
  const TemporaryFolder folder;
  const auto pair = [](const char* first, const char* second, double latency, double speed) {
    return nlohmann::json{{"first", first},
                          {"second", second},
                          {"latency_seconds", latency},
                          {"bytes_per_second", speed}};
  };
  const nlohmann::json two_ranks = {{"ranks", 2}};
  nlohmann::json both = {{"memory_bytes_per_second", 7e9},
                         {"hosts", {two_ranks, two_ranks, two_ranks}},
                         {"allreduce", {{{"bytes", 1e6}, {"seconds", 1.0}}}},
                         {"pairs",
                          {pair("a", "a", 1e-6, 5e9), pair("b", "b", 2e-6, 4e9),
                           pair("a", "b", 1e-4, 1e8), pair("a", "c", 3e-4, 2e8)}}};
  PlanNetwork network;
  PlanTimes times;
  const std::string path = folder.Write("doctor.json", both.dump());
  REQUIRE(CalibrateFromDoctor(path, 3, network, times).ok());
  CHECK(times.memory_bytes_per_second == 7e9);
  CHECK(network.bytes_per_second == 1e8);
  CHECK(network.latency_seconds == 3e-4);
  CHECK(network.host_bytes_per_second == 4e9);
  CHECK(network.host_latency_seconds == 2e-6);
  // Of before, when doctor had one speed for both.
  CHECK(times.low_rank_flops_per_second == 8 * 7e9);
  both["low_rank_flops_per_second"] = 3e10;
  // A hierarchical sum over three hosts takes 4/3 of its bytes through each card.
  both["allreduce"].push_back({{"bytes", 3e8}, {"seconds", 2.0}});
  REQUIRE(CalibrateFromDoctor(folder.Write("doctor.json", both.dump()), 3, network, times).ok());
  CHECK(network.bytes_per_second == Approx(2e8));
  CHECK(times.low_rank_flops_per_second == 3e10);

  for (const double speed : {0.0, -1.0}) {
    nlohmann::json broken = both;
    broken["pairs"][2]["bytes_per_second"] = speed;
    const Status status =
        CalibrateFromDoctor(folder.Write("broken.json", broken.dump()), 3, network, times);
    CHECK(status.code() == ExitCode::kStorage);
    CHECK_THAT(std::string(status.message()), Catch::Contains("which nothing measures"));
  }

  nlohmann::json broken = both;
  broken["memory_bytes_per_second"] = 0.0;
  CHECK(CalibrateFromDoctor(folder.Write("broken.json", broken.dump()), 3, network, times).code() ==
        ExitCode::kStorage);

  // As before doctor measured memory.
  const nlohmann::json one = {{"hosts", {two_ranks}},
                              {"allreduce", nlohmann::json::array()},
                              {"pairs", {pair("a", "a", 1e-6, 5e9)}}};
  const std::string alone = folder.Write("one.json", one.dump());
  CHECK(CalibrateFromDoctor(alone, 1, network, times).ok());
  CHECK(CalibrateFromDoctor(alone, 2, network, times).code() == ExitCode::kUsage);
  CHECK(CalibrateFromDoctor(folder.Write("x", "nonsense"), 1, network, times).code() ==
        ExitCode::kUsage);
  CHECK(CalibrateFromDoctor(folder.File("absent"), 1, network, times).code() == ExitCode::kUsage);
}

}  // namespace
}  // namespace dtrain
