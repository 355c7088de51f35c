// distributed_gradients_test.cc - orders, passes, unused parameters, wire types, misuse.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/distributed_gradients.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::RunRanks;
using Values = std::vector<float>;

constexpr int kStrides[] = {1, 2, 4, 5};  // without a common divisor with 9

Tensor View(Values& values) {
  return Tensor::View(values.data(), {static_cast<int64_t>(values.size())});
}

// "" where all ranks' body gave "".
template <typename Body>
std::string OnRanks(int size, const Body& body) {
  std::string wrong;
  for (const std::string& text : RunRanks(size, body)) wrong += text;
  return wrong;
}

TEST_CASE("gradients ready in another order on each rank are averaged") {
  CHECK(OnRanks(4, [](Communicator& comm) -> std::string {
          Collectives collectives(comm);
          std::vector<Values> tensors;
          std::vector<NamedGradient> named;
          for (size_t i = 0; i < 9; ++i) tensors.emplace_back(i * 100 + 1);
          for (Values& tensor : tensors)
            named.push_back({std::to_string(named.size()), View(tensor)});
          DistributedGradients gradients(named, collectives);
          for (int step = 0; step < 3; ++step) {
            for (Values& tensor : tensors) {
              tensor.assign(tensor.size(), static_cast<float>(comm.rank() + step));
            }
            for (int i = 0; i < 9; ++i) gradients.Ready((i * kStrides[comm.rank()] + step) % 9);
            if (!gradients.Synchronize().ok()) return "an error";
            for (const Values& tensor : tensors) {
              if (tensor != Values(tensor.size(), 1.5f + static_cast<float>(step))) return "values";
            }
          }
          return "";
        }) == "");
}

TEST_CASE("28: parameters that some ranks did not use take part as zeros") {
  CHECK(OnRanks(3, [](Communicator& comm) -> std::string {
          Collectives collectives(comm);
          Values used(5, 3.0f);
          Values branch(5, comm.rank() == 1 ? 6.0f : 0.0f);
          DistributedGradients gradients({{"used", View(used)}, {"branch", View(branch)}},
                                         collectives);
          gradients.Ready(0);
          if (comm.rank() == 1) gradients.Ready(1);
          if (!gradients.Synchronize().ok()) return "an error";
          return used == Values(5, 3.0f) && branch == Values(5, 2.0f) ? "" : "values";
        }) == "");
}

TEST_CASE("29: two models take turns on one queue") {
  CHECK(OnRanks(2, [](Communicator& comm) -> std::string {
          Collectives collectives(comm);
          Values generator(7);
          Values discriminator(3);
          DistributedGradients first({{"g", View(generator)}}, collectives);
          DistributedGradients second({{"d", View(discriminator)}}, collectives);
          for (int step = 0; step < 4; ++step) {
            generator.assign(7, static_cast<float>(comm.rank()));
            discriminator.assign(3, 9.0f);
            DistributedGradients& trained = step % 2 == 0 ? first : second;
            trained.Ready(0);
            if (!trained.Synchronize().ok()) return "an error";
            const float expected = step % 2 == 0 ? 0.5f : static_cast<float>(comm.rank());
            if (generator != Values(7, expected) || discriminator != Values(3, 9.0f))
              return "values";
          }
          return "";
        }) == "");
}

TEST_CASE("30: what is clipped after the reduction is what the step uses, once") {
  CHECK(OnRanks(2, [](Communicator& comm) -> std::string {
          Collectives collectives(comm);
          Values gradient(4, comm.rank() == 0 ? 10.0f : 30.0f);
          DistributedGradients gradients({{"w", View(gradient)}}, collectives);
          gradients.Ready(0);
          if (!gradients.Synchronize().ok()) return "an error";
          for (float& g : gradient) g = std::min(g, 5.0f);
          // The next step reduces what it is given, not the clipped values again.
          const Values clipped = gradient;
          gradient.assign(4, 1.0f);
          gradients.Ready(0);
          if (!gradients.Synchronize().ok()) return "an error";
          return clipped == Values(4, 5.0f) && gradient == Values(4, 1.0f) ? "" : "values";
        }) == "");
}

TEST_CASE("31: gradients without a name or with another's are refused") {
  RunRanks(2, [](Communicator& comm) {
    Collectives collectives(comm);
    Values a(3);
    const auto make = [&](const std::vector<NamedGradient>& named) -> std::string {
      try {
        const DistributedGradients gradients(named, collectives);
      } catch (const CheckError& error) {
        return error.what();
      }
      return "";
    };
    const auto contains = [](const std::string& text, const char* part) {
      return text.find(part) != std::string::npos;
    };
    DT_CHECK(contains(make({{"w", View(a)}, {"w", View(a)}}), "two gradients are named \"w\""));
    DT_CHECK(contains(make({{"w", View(a)}, {"", View(a)}}), "gradient 1 has no name"));
  });
  SUCCEED();
}

TEST_CASE("gradients of a rank that fails are left alone, and the others are told") {
  const auto statuses = RunRanks(3, [](Communicator& comm) {
    Collectives collectives(comm);
    absl::Status status;
    {
      Values gradient(1000, 1.0f);
      DistributedGradients gradients({{"w", View(gradient)}}, collectives);
      gradients.Ready(0);
      if (comm.rank() != 1) status = gradients.Synchronize();
    }
    return status;
  });
  // Rank 1 may have left before or after the gradients were reduced.
  CHECK(statuses[1].ok());
  CHECK(statuses[0].code() == statuses[2].code());
  const auto stuck = RunRanks(3, [](Communicator& comm) {
    Collectives collectives(comm);
    Values gradient(1000, 1.0f);
    DistributedGradients gradients({{"w", View(gradient)}}, collectives);
    if (comm.rank() == 1) {
      collectives.Abort("out of memory");
      return absl::OkStatus();
    }
    gradients.Ready(0);
    return gradients.Synchronize();
  });
  for (const size_t r : {size_t{0}, size_t{2}}) {
    CHECK_THAT(std::string(MessageOf(stuck[r])),
               Catch::Contains("rank 1 (host a) has ended its collectives: out of memory"));
  }
}

TEST_CASE("34: several passes make one reduction, of their mean where asked") {
  CHECK(OnRanks(2, [](Communicator& comm) -> std::string {
          Collectives collectives(comm);
          Values gradient(4, 0.0f);
          DistributedGradients gradients({{"w", View(gradient)}}, collectives,
                                         {.passes_per_step = 4, .average_passes = true});
          for (int pass = 0; pass < 4; ++pass) {
            for (float& g : gradient) g += static_cast<float>(pass + comm.rank());
            gradients.Ready(0);
          }
          try {
            gradients.Ready(0);
            return "a fifth pass was taken";
          } catch (const CheckError& error) {
            if (std::string(error.what()).find("had all its passes") == std::string::npos) {
              return error.what();
            }
          }
          if (!gradients.Synchronize().ok()) return "an error";
          if (collectives.statistics().tensors != 1) return "more than one reduction";
          return gradient == Values(4, 2.0f) ? "" : "values";
        }) == "");
}

TEST_CASE("27: floats travel as 16 bits and come back, other types as they are") {
  for (const DType wire_type : {DType::kFloat16, DType::kBFloat16}) {
    CHECK(OnRanks(3, [&](Communicator& comm) -> std::string {
            Collectives collectives(comm);
            Values ones(1000, 1.0f);
            std::vector<double> wide(10, 1.0);
            std::vector<int32_t> whole(10, 100003);
            Values large(10, 60000.0f);  // the sum would pass the largest float16
            DistributedGradients gradients({{"ones", View(ones)},
                                            {"wide", Tensor::View(wide.data(), {10})},
                                            {"large", View(large)}},
                                           collectives,
                                           {.wire_type = wire_type, .predivide_factor = 4});
            DistributedGradients integers({{"whole", Tensor::View(whole.data(), {10})}},
                                          collectives,
                                          {.op = ReduceOp::kSum, .wire_type = wire_type});
            if (!gradients.Synchronize().ok() || !integers.Synchronize().ok()) return "an error";
            if (std::abs(ones[7] - 1.0f) > 1e-8f || std::abs(wide[7] - 1.0) > 1e-8) return "ones";
            if (whole != std::vector<int32_t>(10, 300009)) return "integers were rounded";
            return std::abs(large[0] - 60000.0f) < 300 ? "" : "overflow";
          }) == "");
  }
}

}  // namespace
}  // namespace dtrain
