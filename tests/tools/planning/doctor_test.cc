// doctor_test.cc - a doctor's sentences name what is wrong and what to do, and nothing else.
// SPDX-License-Identifier: Apache-2.0
#include "planning/doctor.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planning/doctor_hosts.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

HostReport GoodHost(const std::string& name) {
  return {.name = name,
          .build = "dtrain 0.1.0",
          .device = "cpu",
          .ranks = 2,
          .threads = 4,
          .cores = 8,
          .memory_bytes = int64_t{32} << 30,
          .disk_bytes_per_second = 500e6,
          .network_interface = "eth0",
          .interface_mbit = 10000};
}

// Two hosts without a fault.
DoctorReport GoodReport() {
  return {.mpi = "Open MPI v4.1.4",
          .ranks = 4,
          .keep_alive_seconds = 3,
          .hosts = {GoodHost("a"), GoodHost("b")},
          .pairs = {{"a", "a", 1e-6, 5e9}, {"a", "b", 20e-6, 1.2e9}},
          .sweep = {{4096, 1e-4, 6e7}, {64 << 20, 0.04, 2.5e9}}};
}

// The one sentence about a report.
std::string Sentence(const DoctorReport& report) {
  const std::vector<std::string> sentences = Diagnose(report);
  CAPTURE(sentences);
  REQUIRE(sentences.size() == 1);
  return sentences.front();
}

TEST_CASE("nothing stands out of a job without a fault") {
  CHECK(Diagnose(GoodReport()).empty());
  const std::string text = DoctorText(GoodReport());
  CHECK_THAT(text, Catch::Contains("4 ranks on 2 hosts") && Catch::Contains("a and b") &&
                       Catch::Contains("1.20 GB/s") && Catch::Contains("64 MiB") &&
                       Catch::Contains("nothing stands out"));
}

TEST_CASE("what connects the GPUs is named where there are any") {
  DoctorReport report = GoodReport();
  CHECK_THAT(DoctorText(report), !Catch::Contains("GPU"));
  report.nccl = "NCCL 2.28.9, flat";
  CHECK_THAT(DoctorText(report), Catch::Contains("between GPUs: NCCL 2.28.9, flat"));
}

TEST_CASE("each fault has one sentence with the flag that helps") {
  DoctorReport report = GoodReport();
  SECTION("another build") {
    report.hosts[1].build = "dtrain 0.2.0";
    CHECK_THAT(Sentence(report), Catch::Contains("host b runs another build (dtrain 0.2.0)"));
  }
  SECTION("GPUs without NCCL") {
    report.without_nccl = "rank 1 (host b): NCCL cannot be loaded";
    CHECK_THAT(Sentence(report), Catch::Contains("rank 1 (host b): NCCL cannot be loaded"));
  }
  SECTION("a GPU without cuDNN") {
    report.hosts[1].without_cudnn = "libcudnn.so.9 is not found";
    CHECK_THAT(Sentence(report), Catch::Contains("host b has dtrain's attention kernels alone") &&
                                     Catch::Contains("libcudnn.so.9 is not found"));
  }
  SECTION("more ranks than cores") {
    report.hosts[0].cores = 1;
    CHECK_THAT(Sentence(report),
               Catch::Contains("2 ranks on 1 cores") && Catch::Contains("-H a:1"));
  }
  SECTION("more threads than cores") {
    report.hosts[1].threads = 8;
    CHECK_THAT(Sentence(report), Catch::Contains("OMP_NUM_THREADS=4"));
  }
  SECTION("a slow network") {
    report.sweep.back().seconds = 2.0;
    CHECK_THAT(Sentence(report), Catch::Contains("takes 7.26 s for its gradients") &&
                                     Catch::Contains("trainer.wire_precision=bf16"));
  }
  SECTION("one slow pair") {
    report.hosts.push_back(GoodHost("c"));
    report.pairs.push_back({"a", "c", 20e-6, 1.2e9});
    report.pairs.push_back({"b", "c", 20e-6, 0.1e9});
    CHECK_THAT(Sentence(report), Catch::Contains("b and c exchange 100.0 MB/s"));
  }
  SECTION("the slower of two interfaces") {
    report.hosts[0].faster_interface = "ib0";
    CHECK_THAT(Sentence(report), Catch::Contains("eth0 (10000 Mbit/s) though ib0 is faster") &&
                                     Catch::Contains("OMPI_MCA_btl_tcp_if_include=ib0 mpirun"));
    report.mpi = "MPICH Version: 4.0.2";
    CHECK_THAT(Sentence(report), Catch::Contains("UCX_NET_DEVICES=ib0 mpirun"));
  }
  SECTION("nobody watches the cable") {
    report.keep_alive_seconds = 300;
    CHECK_THAT(Sentence(report), Catch::Contains("contrib/dtrain-mpirun"));
    report.keep_alive_seconds = std::numeric_limits<double>::infinity();
    CHECK_THAT(Sentence(report), Catch::Contains("contrib/dtrain-mpirun"));
    report.mpi = "MPICH Version: 4.0.2";
    CHECK_THAT(Sentence(report), Catch::Contains("ranks end after run.comm_timeout"));
  }
  SECTION("a folder that only one host can write") {
    report.hosts[1].disk_bytes_per_second = 0.0;
    CHECK_THAT(Sentence(report), Catch::Contains("host b cannot write the folder"));
  }
  SECTION("a slow disk") {
    report.hosts[0].disk_bytes_per_second = 20e6;
    CHECK_THAT(Sentence(report), Catch::Contains("writes 20.0 MB/s") && Catch::Contains("36.54 s"));
  }
  SECTION("a wrong clock") {
    report.hosts[1].clock_offset = -61.0;
    CHECK_THAT(Sentence(report), Catch::Contains("host b is 61.0 s behind"));
  }
}

TEST_CASE("one host without a network needs no watched cable") {
  DoctorReport report = GoodReport();
  report.keep_alive_seconds.reset();
  report.hosts.pop_back();
  report.pairs.pop_back();
  CHECK(Diagnose(report).empty());
}

TEST_CASE("what the launcher does for cut cables is said as it was measured") {
  DoctorReport report = GoodReport();
  CHECK_THAT(DoctorText(report), Catch::Contains("keep-alive messages, the next one in 3 s"));
  report.keep_alive_seconds = std::numeric_limits<double>::infinity();
  CHECK_THAT(DoctorText(report), Catch::Contains("connections send no keep-alive messages"));
  CHECK_THAT(DoctorJson(report), !Catch::Contains("keep_alive"));
  report.keep_alive_seconds.reset();
  CHECK_THAT(DoctorText(report), !Catch::Contains("keep-alive"));
}

TEST_CASE("hosts are named as for mpirun, and with addresses of IPv6") {
  CHECK(HostsIn("a:2,b:2") == std::vector<std::string>{"a", "b"});
  CHECK(HostsIn("10.77.0.1,fd77::2,c") == std::vector<std::string>{"10.77.0.1", "fd77::2", "c"});
}

TEST_CASE("the JSON form holds the numbers and the advice") {
  DoctorReport report = GoodReport();
  report.hosts[1].clock_offset = 2.0;
  const nlohmann::json json = nlohmann::json::parse(DoctorJson(report));
  CHECK(json.at("ranks") == 4);
  CHECK(json.at("hosts").at(1).at("clock_offset_seconds") == 2.0);
  CHECK(json.at("pairs").at(1).at("bytes_per_second") == 1.2e9);
  CHECK(json.at("allreduce").at(0).at("bytes") == 4096);
  CHECK(json.at("advice").size() == 1);
}

}  // namespace
}  // namespace dtrain
