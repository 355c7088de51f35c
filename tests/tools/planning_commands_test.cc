// planning_commands_test.cc - doctor, plan and estimate as users run them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "testing/catch.h"
#include "tools/tiny_run.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

TEST_CASE("doctor measures two ranks, and refuses a folder it cannot write") {
  const std::string doctor =
      DTRAIN_TEST_MPIRUN " -n 2 " DTRAIN_TEST_TOOL " doctor --largest_mib=1 ";
  const Outcome outcome = Shell(doctor + "--json --dir=/tmp");
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  const nlohmann::json json = nlohmann::json::parse(outcome.output);
  REQUIRE(json.at("hosts").size() == 1);
  CHECK(json.at("hosts").at(0).at("ranks") == 2);
  CHECK(json.at("hosts").at(0).at("disk_bytes_per_second").get<double>() > 0.0);
  REQUIRE(json.at("pairs").size() == 1);
  CHECK(json.at("pairs").at(0).at("bytes_per_second").get<double>() > 0.0);
  CHECK(json.at("allreduce").size() == 5);
  CHECK(json.at("memory_bytes_per_second").get<double>() > 0.0);
  CHECK(json.at("low_rank_flops_per_second").get<double>() > 0.0);
  const Outcome refused = Shell(doctor + "--dir=/absent");
  INFO(refused.output);
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, Catch::Contains("/absent: cannot be written on any host"));
  // Before the largest allreduce, which would take longer than that.
  CHECK(
      Shell("timeout 20 " DTRAIN_TEST_TOOL " doctor --largest_mib=4096 --dir=/absent").exit_code ==
      2);
}

TEST_CASE("plan takes doctor's file, all programs' configurations and thousands of ranks") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string doctor = tiny.Path("doctor.json");
  const Outcome measured = Shell(DTRAIN_TEST_MPIRUN " -n 2 " DTRAIN_TEST_TOOL
                                                    " doctor --largest_mib=1 --dir=/tmp --output=" +
                                 doctor);
  INFO(measured.output);
  REQUIRE(measured.exit_code == 0);
  const std::string tail = " --doctor=" + doctor + " --network=25Gb --json";
  const Outcome nmt = Tool("plan --config=" + tiny.run +
                           "/config.textproto --nodes=1024 --ranks_per_node=8 --flops=1e12" + tail);
  INFO(nmt.output);
  REQUIRE(nmt.exit_code == 0);
  const nlohmann::json plan = nlohmann::json::parse(nmt.output);
  CHECK(plan.at("ways").size() == 16);
  CHECK(plan.at("network").at("bytes_per_second").get<double>() == Approx(2937.5e6));
  for (const nlohmann::json& way : plan.at("ways")) CHECK(way.at("seconds").get<double>() > 0.0);
  const Outcome bert = Tool("plan data.glue=sst-2 --step_seconds=1" + tail);
  REQUIRE(bert.exit_code == 0);
  const nlohmann::json base = nlohmann::json::parse(bert.output);
  CHECK(base.at("parameters") == 109483778);
  CHECK(base.at("ways").back().at("power_sgd_rank") == 768 / 8);
  const auto parameters = [&](const std::string& arguments) {
    const Outcome outcome = Tool("plan --nodes=4 --flops=1e12 --json " + arguments);
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    const nlohmann::json json = nlohmann::json::parse(outcome.output);
    CHECK(json.at("ways").size() == 8);
    return json.at("parameters").get<int64_t>();
  };
  // BertForQuestionAnswering and BertForPreTraining, base.
  CHECK(parameters("data.stride=128") == 108893186);
  CHECK(parameters("data.next_sentence=true") == 110106428);
}

TEST_CASE("speeds of a rank that are given by hand count more than the usual ones") {
  // Of the slowest way with PowerSGD, on a network that takes no time.
  const auto encoding = [](const std::string& flags) {
    const Outcome outcome =
        Tool("plan data.glue=sst-2 --nodes=2 --step_seconds=1 --network=1e9GB/s --json " + flags);
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    const nlohmann::json plan = nlohmann::json::parse(outcome.output);
    double slowest = 0.0;
    for (const nlohmann::json& way : plan.at("ways")) {
      if (way.at("power_sgd_rank") == 0) continue;
      slowest = std::max(slowest, way.at("encode_seconds").get<double>());
    }
    return slowest;
  };
  const double usual = encoding("");
  CHECK(usual > 0.0);
  CHECK(encoding("--memory_gb=10 --low_rank_gflops=80") == usual);
  CHECK(encoding("--memory_gb=5 --low_rank_gflops=40") == Approx(2 * usual).epsilon(1e-3));
  CHECK(encoding("--low_rank_gflops=8") > 5 * usual);
  const Outcome refused = Tool("plan data.glue=sst-2 --step_seconds=1 --low_rank_gflops=0");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, Catch::Contains("--low_rank_gflops is more than 0"));
}

TEST_CASE("estimate tells a run's checkpoint size and activations before it starts") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string arguments = "estimate --config=" + tiny.run + "/config.textproto";
  const Outcome text = Tool(arguments);
  INFO(text.output);
  REQUIRE(text.exit_code == 0);
  CHECK_THAT(text.output, Catch::Contains("parameters") && Catch::Contains("every_k (k = 2)"));
  const Outcome outcome = Tool(arguments + " --json");
  REQUIRE(outcome.exit_code == 0);
  const nlohmann::json json = nlohmann::json::parse(outcome.output);

  double checkpoint = 0.0;
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    checkpoint += static_cast<double>(fs::file_size(tiny.run + "/ckpt/last/" + file));
  }
  // The files' headers are a good part of so small a model.
  CHECK(json.at("checkpoint_bytes").get<double>() == Approx(checkpoint).epsilon(0.15));

  double measured = 0.0;
  for (const std::string& line : Lines(ReadTestFile(tiny.run + "/metrics/events.jsonl"))) {
    const std::string event = nlohmann::json::parse(line).value("text", "");
    std::sscanf(event.c_str(), "activations took %lf MiB", &measured);
  }
  CHECK(json.at("bytes").at("activations").get<double>() ==
        Approx(measured * (1 << 20)).epsilon(0.1));
}

TEST_CASE("estimate --measure trains some updates and says how long a run will take") {
  const TinyRun& tiny = TinyRun::Get();
  const std::string estimate = "estimate --measure --config=" + tiny.run + "/config.textproto ";
  const Outcome steps = Tool(estimate + "trainer.max_steps=1000");
  INFO(steps.output);
  CHECK(steps.exit_code == 0);
  CHECK_THAT(steps.output, Catch::Contains("measured, one rank") && Catch::Contains(" about ") &&
                               Catch::Contains(": 1000 updates, without evaluations"));
  CHECK(CountProcesses("dtrain-measure-") == 0);
  const Outcome missing = Tool(estimate + "data.prepared=" + tiny.Path("absent"));
  CHECK(missing.exit_code != 0);
  CHECK_THAT(missing.output, Catch::Contains("absent"));
  const Outcome few = Tool(estimate);  // the run of three updates
  CHECK(few.exit_code == 2);
  CHECK_THAT(few.output, Catch::Contains("too few updates to measure"));
}

TEST_CASE("estimate and plan name the file that they cannot take") {
  const Outcome estimate = Tool("estimate data.prepared=/nosuch");
  CHECK(estimate.exit_code == 2);
  CHECK_THAT(estimate.output, Catch::Contains("data.prepared: /nosuch holds no train.bin"));
  CHECK(Tool("estimate data.prepared=/nosuch data.train_source=a data.train_target=b").exit_code ==
        0);
  const std::string file = TinyRun::Get().run + "/no.json";
  WriteTestFile(file, "garbage");
  const Outcome plan = Tool("plan --nodes=2 --step_seconds=1 --doctor=" + file);
  CHECK(plan.exit_code == 2);
  CHECK_THAT(plan.output, Catch::Contains("no.json: is no JSON object"));
}

}  // namespace
}  // namespace dtrain
