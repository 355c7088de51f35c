// power_sgd_memory.cc - error memories gathered on the root, which writes and reads them by name.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/power_sgd_memory.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/root_status.h"

namespace dtrain::internal {
namespace {

constexpr char kFile[] = "power_sgd.safetensors";
constexpr char kWriters[] = "ranks";  // by its first name: workers are ranks in most runs
// What errors are gradients of. Files without it hold those of sums over each update's tokens,
// whose number they do not say.
constexpr char kUnit[] = "unit";
constexpr char kMeanLoss[] = "mean loss";

constexpr char kErrorPrefix[] = "error.";

std::string ErrorName(int worker, const CompressedMatrix& matrix) {
  return absl::StrCat(kErrorPrefix, worker, ".", matrix.name);
}

std::string FactorName(const CompressedMatrix& matrix) { return "factor." + matrix.name; }

// Where each rank's part begins in what the root holds of all ranks; [size + 1].
struct RankOffsets {
  std::vector<int64_t> errors = {0};
  std::vector<int64_t> factors = {0};

  explicit RankOffsets(const PowerSgdMemory& memory) {
    for (const int place : memory.grid.place) {
      const MemorySize size = SizeAt(memory, place);
      errors.push_back(errors.back() + size.errors);
      factors.push_back(factors.back() + size.factors);
    }
  }
};

// By worker, the rank that has a matrix.
std::vector<size_t> RanksOf(const WorkerGrid& grid, const CompressedMatrix& matrix) {
  std::vector<size_t> ranks(static_cast<size_t>(grid.workers));
  for (size_t r = 0; r < grid.place.size(); ++r) {
    if (grid.place[r] == matrix.place) ranks[static_cast<size_t>(grid.worker[r])] = r;
  }
  return ranks;
}

// For AllToAllV(), in bytes: what the root has of each rank, and what this rank has of the root.
struct PartBytes {
  std::vector<int64_t> at_root, here;

  PartBytes(const std::vector<int64_t>& offsets, size_t elements, const Communicator& comm)
      : at_root(offsets.size(), 0), here(offsets.size(), 0) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
    std::fill(here.begin() + 1, here.end(), static_cast<int64_t>(elements) * kBytes);
    if (!comm.is_root()) return;
    std::ranges::transform(offsets, at_root.begin(),
                           [](int64_t offset) { return offset * kBytes; });
  }
};

void MoveToRoot(const std::vector<float>& own, float* all, const std::vector<int64_t>& offsets,
                Communicator& comm) {
  const PartBytes parts(offsets, own.size(), comm);
  comm.StartAllToAllV(own.data(), parts.here, all, parts.at_root)->Wait();
}

void MoveFromRoot(const std::vector<float>& all, std::vector<float>& own,
                  const std::vector<int64_t>& offsets, Communicator& comm) {
  const PartBytes parts(offsets, own.size(), comm);
  comm.StartAllToAllV(all.data(), parts.at_root, own.data(), parts.here)->Wait();
}

// A tensor that owns `elements` floats.
Tensor OwnedTensor(int64_t elements) {
  const auto bytes = static_cast<size_t>(elements) * sizeof(float);
  std::shared_ptr<std::byte> block(new std::byte[bytes], std::default_delete<std::byte[]>());
  return {block.get(), {elements}, DType::kFloat32, {}, block};
}

std::span<const std::byte> BytesAt(const Tensor& tensor, int64_t begin, int64_t elements) {
  return {reinterpret_cast<const std::byte*>(tensor.data<float>() + begin),
          static_cast<size_t>(elements) * sizeof(float)};
}

// Copies the tensor of that name and shape; false where there is none.
bool CopyTensor(const SafetensorsFile& file, const std::string& name, const MatrixSize& size,
                float* to) {
  const NamedTensor* const tensor = file.Find(name);
  if (tensor == nullptr || tensor->dtype != DType::kFloat32 ||
      tensor->shape != std::vector<int64_t>{size.rows, size.columns}) {
    return false;
  }
  std::memcpy(to, tensor->data.data(), tensor->data.size());
  return true;
}

bool IsOfMeanLoss(const SafetensorsFile& file) {
  const auto unit = file.metadata().find(kUnit);
  return unit != file.metadata().end() && unit->second == kMeanLoss;
}

// Workers that wrote the file.
StatusOr<int> WritersOf(const SafetensorsFile& file) {
  const auto text = file.metadata().find(kWriters);
  int writers = 0;
  if (text == file.metadata().end() || !absl::SimpleAtoi(text->second, &writers) || writers < 1 ||
      writers > static_cast<int>(file.tensors().size())) {
    return StorageError(
        absl::StrCat(file.path(),
                     ": does not say how many ranks wrote it; delete this checkpoint and resume "
                     "from the one before"));
  }
  return writers;
}

}  // namespace

MemorySize SizeAt(const PowerSgdMemory& memory, int place) {
  MemorySize size;
  for (const CompressedMatrix& matrix : memory.matrices) {
    if (matrix.place != place) continue;
    size.errors += matrix.size.elements();
    size.factors += memory.rank * matrix.size.columns;
  }
  return size;
}

void WarnIfNothingShrinks(const PowerSgdMemory& memory, const Communicator& comm) {
  if (!memory.matrices.empty()) return;
  Log(comm.is_root() ? LogLevel::kWarning : LogLevel::kInfo,
      absl::StrCat("PowerSGD of rank ", memory.rank,
                   " would shrink no matrix to half: all gradients travel whole; give a lower "
                   "rank"));
}

CheckpointFile GatherMemory(const PowerSgdMemory& memory, Communicator& comm) {
  const RankOffsets offsets(memory);
  TensorGroup group;
  const bool is_root = comm.is_root();
  const Tensor errors = group.owners.emplace_back(OwnedTensor(is_root ? offsets.errors.back() : 0));
  const Tensor factors =
      group.owners.emplace_back(OwnedTensor(is_root ? offsets.factors.back() : 0));
  MoveToRoot(memory.errors, errors.data<float>(), offsets.errors, comm);
  MoveToRoot(memory.factors, factors.data<float>(), offsets.factors, comm);
  if (!is_root) return {kFile, TensorGroup()};
  for (const CompressedMatrix& matrix : memory.matrices) {
    const std::vector<size_t> ranks = RanksOf(memory.grid, matrix);
    for (size_t w = 0; w < ranks.size(); ++w) {
      group.tensors.push_back(
          {.name = ErrorName(static_cast<int>(w), matrix),
           .dtype = DType::kFloat32,
           .shape = {matrix.size.rows, matrix.size.columns},
           .data = BytesAt(errors, offsets.errors[ranks[w]] + matrix.error_begin,
                           matrix.size.elements())});
    }
    group.tensors.push_back(
        {.name = FactorName(matrix),
         .dtype = DType::kFloat32,
         .shape = {memory.rank, matrix.size.columns},
         .data = BytesAt(factors, offsets.factors[ranks[0]] + matrix.factor_begin,
                         memory.rank * matrix.size.columns)});
  }
  group.metadata[kWriters] = absl::StrCat(memory.grid.workers);
  group.metadata[kUnit] = kMeanLoss;
  return {kFile, std::move(group)};
}

StatusOr<GatheredMemory> ReadMemory(const Checkpoint& checkpoint, const PowerSgdMemory& memory) {
  GatheredMemory gathered;
  if (!checkpoint.Has(kFile)) return gathered;
  DT_ASSIGN_OR_RETURN(const SafetensorsFile file, checkpoint.OpenTensors(kFile));
  DT_ASSIGN_OR_RETURN(gathered.writers, WritersOf(file));
  const RankOffsets offsets(memory);
  gathered.errors.resize(static_cast<size_t>(offsets.errors.back()));
  gathered.factors.resize(static_cast<size_t>(offsets.factors.back()));
  std::vector<float> part;
  std::vector<double> sum;
  int found = 0;
  for (const CompressedMatrix& matrix : memory.matrices) {
    const std::vector<size_t> ranks = RanksOf(memory.grid, matrix);
    const auto errors_of = [&](size_t worker) {
      return gathered.errors.data() + offsets.errors[ranks[worker]] + matrix.error_begin;
    };
    part.resize(static_cast<size_t>(matrix.size.elements()));
    sum.assign(part.size(), 0.0);
    for (int w = 0; w < gathered.writers; ++w) {
      if (!CopyTensor(file, ErrorName(w, matrix), matrix.size, part.data())) continue;
      ++found;
      if (gathered.writers == memory.grid.workers) {
        std::ranges::copy(part, errors_of(static_cast<size_t>(w)));
      } else {
        for (size_t i = 0; i < part.size(); ++i) sum[i] += double{part[i]};
      }
    }
    const auto divide = [&](double x) { return static_cast<float>(x / memory.grid.workers); };
    for (size_t w = 0; w < ranks.size() && gathered.writers != memory.grid.workers; ++w) {
      std::ranges::transform(sum, errors_of(w), divide);
    }
    std::vector<float> factors(static_cast<size_t>(memory.rank * matrix.size.columns));
    CopyTensor(file, FactorName(matrix), {memory.rank, matrix.size.columns}, factors.data());
    for (const size_t rank : ranks) {
      std::ranges::copy(factors,
                        gathered.factors.data() + offsets.factors[rank] + matrix.factor_begin);
    }
  }
  const auto errors = std::ranges::count_if(file.tensors(), [](const NamedTensor& tensor) {
    return tensor.name.starts_with(kErrorPrefix);
  });
  gathered.dropped = static_cast<int>(errors - found) / gathered.writers;
  gathered.is_of_sums = !IsOfMeanLoss(file);
  if (gathered.is_of_sums) std::ranges::fill(gathered.errors, 0.0f);
  return gathered;
}

void SpreadMemory(const GatheredMemory& gathered, Communicator& comm, PowerSgdMemory& memory) {
  int32_t writers = gathered.writers;
  comm.Broadcast(&writers, sizeof(writers), 0);
  if (writers == 0) return;
  const RankOffsets offsets(memory);
  MoveFromRoot(gathered.errors, memory.errors, offsets.errors, comm);
  MoveFromRoot(gathered.factors, memory.factors, offsets.factors, comm);
}

StatusOr<std::string> RestoreMemory(const std::string& path, Communicator& comm,
                                    PowerSgdMemory& memory) {
  const auto read = [&]() -> StatusOr<GatheredMemory> {
    if (!comm.is_root()) return GatheredMemory();
    DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                        Checkpoint::Open(path, {.verify_contents = false}));
    return ReadMemory(checkpoint, memory);
  };
  const StatusOr<GatheredMemory> gathered = read();
  DT_RETURN_IF_ERROR(ShareRootStatus(gathered.status(), "read PowerSGD's memory", comm));
  SpreadMemory(*gathered, comm, memory);
  if (!comm.is_root()) return "";
  if (gathered->writers == 0) return "the checkpoint has no memory of PowerSGD: it starts empty";
  if (gathered->is_of_sums) {
    return "PowerSGD's error memory is dropped: the version of dtrain that wrote it remembered "
           "sums "
           "of losses, not means";
  }
  std::vector<std::string> notes;
  if (gathered->writers != memory.grid.workers) {
    notes.push_back(absl::StrCat("PowerSGD's error memory of ", gathered->writers,
                                 " ranks or hosts is shared out over ", memory.grid.workers,
                                 memory.grid.places > 1 ? " hosts" : " ranks"));
  }
  if (gathered->dropped > 0) {
    notes.push_back(absl::StrCat("PowerSGD's error memory of ", gathered->dropped,
                                 " parameters that this run does not compress is dropped"));
  }
  return absl::StrJoin(notes, "; ");
}

bool HasMemory(const std::string& path) {
  const StatusOr<Checkpoint> checkpoint = Checkpoint::Open(path, {.verify_contents = false});
  return checkpoint.ok() && checkpoint->Has(kFile);
}

}  // namespace dtrain::internal
