// collectives_values.cc - named reductions: factors of each tensor, and what joined ranks bring.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "comm/collectives_suite.h"

namespace dtrain::testing {
namespace {

// Of the numbers 1 to n, which ranks bring as rank + 1.
int SumOfNumbers(const Communicator& comm) { return comm.size() * (comm.size() + 1) / 2; }

template <typename T>
std::string FactorsOfType(Collectives& collectives, const Communicator& comm) {
  std::vector<T> values(7, static_cast<T>(static_cast<float>(comm.rank() + 1)));
  const ReduceOptions options{.op = ReduceOp::kSum, .prescale = 0.5, .postscale = 8};
  std::string wrong = ExpectOk(collectives.AllReduce("x", View(values), options).Wait());
  const std::string what = "the scaled " + std::string(Name(kDTypeOf<T>));
  return wrong + ExpectAll(what.c_str(), values, 4 * SumOfNumbers(comm));
}

std::string FactorsOfEveryFloat(Communicator& comm) {
  Collectives collectives(comm);
  return Join({FactorsOfType<float>(collectives, comm), FactorsOfType<double>(collectives, comm),
               FactorsOfType<BFloat16>(collectives, comm),
               FactorsOfType<Float16>(collectives, comm)});
}

// Nobody waits before all are submitted, so that most of them travel in one exchange.
std::string FactorsOfFusedTensors(Communicator& comm) {
  Collectives collectives(comm, {.cycle_seconds = 0.01});
  constexpr size_t kTensors = 24;
  const auto options = [](size_t i) {
    return ReduceOptions{.op = ReduceOp::kSum,
                         .prescale = std::ldexp(1.0, static_cast<int>(i % 3) - 1),
                         .postscale = std::ldexp(1.0, static_cast<int>(i % 4) * 2 - 2)};
  };
  std::vector<std::vector<float>> values(kTensors);
  std::vector<CollectiveHandle> handles;
  for (size_t i = 0; i < kTensors; ++i) {
    values[i].assign(i + 1, static_cast<float>(comm.rank() + 1));
    handles.push_back(collectives.AllReduce(std::to_string(i), View(values[i]), options(i)));
  }
  comm.Barrier();
  std::string wrong;
  for (size_t i = 0; i < kTensors; ++i) {
    const double factor = options(i).prescale * options(i).postscale;
    wrong += Join({ExpectOk(handles[i].Wait()),
                   ExpectAll("the scaled sum", values[i], factor * SumOfNumbers(comm))});
  }
  const Collectives::Statistics statistics = collectives.statistics();
  if (statistics.reductions == statistics.tensors) wrong += "no tensors travelled together";
  return wrong;
}

std::string ScatteredValues(Communicator& comm, const ReduceOptions& options, double expected) {
  Collectives collectives(comm);
  const int64_t rows = 3 * comm.size() + comm.size() / 2;
  std::vector<float> data(static_cast<size_t>(rows * 2), static_cast<float>(comm.rank() + 1));
  const auto handle = collectives.ReduceScatter("x", View(data, {rows, 2}), options);
  std::string wrong = ExpectOk(handle.Wait());
  if (!wrong.empty()) return wrong;
  const Tensor& output = handle.output();
  return ExpectAll("the input", data, comm.rank() + 1) +
         ExpectAll(
             "the rows",
             std::vector<float>(output.data<float>(), output.data<float>() + output.elements()),
             expected);
}

std::string ReduceScatterScales(Communicator& comm) {
  const double sum = SumOfNumbers(comm);
  const ReduceOptions sums{.op = ReduceOp::kSum};
  return Join({ScatteredValues(comm, sums, sum), ScatteredValues(comm, {}, sum / comm.size()),
               ScatteredValues(comm, {.op = ReduceOp::kSum, .prescale = 0.5}, sum / 2),
               ScatteredValues(comm, {.op = ReduceOp::kSum, .postscale = 4}, sum * 4)});
}

// What ranks 1 to n - 1 bring where rank 0 has joined, and what must come of it.
template <typename T>
struct JoinedCase {
  ReduceOp op = ReduceOp::kSum;
  double (*of_rank)(int rank) = nullptr;
  double (*reduced)(int ranks) = nullptr;
};

template <typename T>
std::string BesideJoined(Collectives& collectives, const Communicator& comm,
                         const std::vector<JoinedCase<T>>& cases) {
  std::string wrong;
  for (const JoinedCase<T>& c : cases) {
    std::vector<T> values(9, static_cast<T>(static_cast<float>(c.of_rank(comm.rank()))));
    const std::string what = std::string(Name(c.op)) + " of " + std::string(Name(kDTypeOf<T>));
    wrong += Join({ExpectOk(collectives.AllReduce(what, View(values), {.op = c.op}).Wait()),
                   ExpectAll(what.c_str(), values, c.reduced(comm.size()))});
  }
  return wrong;
}

double Positive(int rank) { return 4 + rank; }
double Negative(int rank) { return -4 - rank; }
double Three(int /*rank*/) { return 3; }
double Bits(int rank) { return 127 - (1 << rank); }  // of the rank's bit, none
double LeastPositive(int /*ranks*/) { return 5; }
double MostNegative(int /*ranks*/) { return -5; }
double PowerOfThree(int ranks) { return std::pow(3, ranks - 1); }
double CommonBits(int ranks) { return 127 - ((1 << ranks) - 2); }

template <typename T>
std::vector<JoinedCase<T>> JoinedCases() {
  return {{ReduceOp::kMin, Positive, LeastPositive},
          {ReduceOp::kMax, Negative, MostNegative},
          {ReduceOp::kProduct, Three, PowerOfThree}};
}

std::string JoinedRanksChangeNoReduction(Communicator& comm) {
  Collectives collectives(comm);
  std::string wrong;
  if (!comm.is_root()) {
    wrong +=
        Join({BesideJoined(collectives, comm, JoinedCases<float>()),
              BesideJoined(collectives, comm, JoinedCases<double>()),
              BesideJoined(collectives, comm, JoinedCases<BFloat16>()),
              BesideJoined(collectives, comm, JoinedCases<Float16>()),
              BesideJoined(collectives, comm, JoinedCases<int32_t>()),
              BesideJoined(collectives, comm, JoinedCases<int64_t>()),
              BesideJoined<uint8_t>(collectives, comm,
                                    {{ReduceOp::kMin, Positive, LeastPositive},
                                     {ReduceOp::kProduct, Three, PowerOfThree},
                                     {ReduceOp::kBitAnd, Bits, CommonBits}}),
              BesideJoined<int32_t>(collectives, comm, {{ReduceOp::kBitAnd, Bits, CommonBits}})});
  }
  return Join({wrong, ExpectOk(collectives.Join().status())});
}

// The barrier cannot be over before rank 0 has joined.
std::string BarriersPassJoinedRanks(Communicator& comm) {
  Collectives collectives(comm);
  std::string wrong;
  if (!comm.is_root()) wrong = Join({ExpectOk(collectives.Barrier()), wrong});
  return Join({wrong, ExpectOk(collectives.Join().status())});
}

}  // namespace

const std::vector<CommunicatorCase>& ValueCases() {
  static const std::vector<CommunicatorCase> cases = {
      {"6: scale factors of every floating type", FactorsOfEveryFloat},
      {"6: tensors that travel together keep factors of their own", FactorsOfFusedTensors},
      {"6, 22: reduce-scatter averages, and scales before and after", ReduceScatterScales},
      {"25: ranks that joined change no minimum, maximum, product or bits",
       JoinedRanksChangeNoReduction},
      {"26: a barrier passes beside a joined rank", BarriersPassJoinedRanks},
  };
  return cases;
}

}  // namespace dtrain::testing
