// power_sgd_memory.cc - error memories gathered on the root, which writes and reads them by name.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/internal/power_sgd_memory.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"
#include "dtrain/comm/root_status.h"

namespace dtrain::internal {
namespace {

constexpr char kFile[] = "power_sgd.safetensors";
constexpr char kRanks[] = "ranks";

std::string ErrorName(int rank, const CompressedMatrix& matrix) {
  return absl::StrCat("error.", rank, ".", matrix.name);
}

std::string FactorName(const CompressedMatrix& matrix) { return "factor." + matrix.name; }

// Offsets by rank where rank r has counts(r) bytes.
template <typename Count>
std::vector<int64_t> OffsetsOf(int size, const Count& count) {
  std::vector<int64_t> offsets = {0};
  for (int r = 0; r < size; ++r) offsets.push_back(offsets.back() + count(r));
  return offsets;
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

}  // namespace

CheckpointFile GatherMemory(const PowerSgdMemory& memory, Communicator& comm) {
  const auto elements = static_cast<int64_t>(memory.errors.size());
  const int64_t bytes = elements * static_cast<int64_t>(sizeof(float));
  const std::vector<int64_t> from =
      OffsetsOf(comm.size(), [&](int rank) { return rank == 0 ? bytes : 0; });
  const std::vector<int64_t> to =
      OffsetsOf(comm.size(), [&](int) { return comm.is_root() ? bytes : 0; });
  TensorGroup group;
  const Tensor& all =
      group.owners.emplace_back(OwnedTensor(comm.is_root() ? elements * comm.size() : 0));
  comm.AllToAllV(memory.errors.data(), from, all.raw(), to);
  if (!comm.is_root()) return {kFile, TensorGroup()};
  const Tensor& factors =
      group.owners.emplace_back(OwnedTensor(static_cast<int64_t>(memory.factors.size())));
  std::copy(memory.factors.begin(), memory.factors.end(), factors.data<float>());
  for (const CompressedMatrix& matrix : memory.matrices) {
    for (int r = 0; r < comm.size(); ++r) {
      group.tensors.push_back(
          {.name = ErrorName(r, matrix),
           .dtype = DType::kFloat32,
           .shape = {matrix.size.rows, matrix.size.columns},
           .data = BytesAt(all, r * elements + matrix.error_begin, matrix.size.elements())});
    }
    group.tensors.push_back(
        {.name = FactorName(matrix),
         .dtype = DType::kFloat32,
         .shape = {memory.rank, matrix.size.columns},
         .data = BytesAt(factors, matrix.factor_begin, memory.rank * matrix.size.columns)});
  }
  group.metadata[kRanks] = absl::StrCat(comm.size());
  return {kFile, std::move(group)};
}

absl::StatusOr<GatheredMemory> ReadMemory(const Checkpoint& checkpoint,
                                          const PowerSgdMemory& memory) {
  GatheredMemory gathered;
  if (!checkpoint.Has(kFile)) return gathered;
  DT_ASSIGN_OR_RETURN(const SafetensorsFile file, checkpoint.OpenTensors(kFile));
  const auto ranks = file.metadata().find(kRanks);
  if (ranks == file.metadata().end() || !absl::SimpleAtoi(ranks->second, &gathered.ranks) ||
      gathered.ranks < 1 || gathered.ranks > static_cast<int>(file.tensors().size())) {
    return StorageError(
        absl::StrCat(file.path(),
                     ": does not say how many ranks wrote it; delete this checkpoint and resume "
                     "from the one before"));
  }
  gathered.errors.resize(static_cast<size_t>(gathered.ranks) * memory.errors.size());
  gathered.factors.resize(memory.factors.size());
  for (const CompressedMatrix& matrix : memory.matrices) {
    for (int r = 0; r < gathered.ranks; ++r) {
      float* const errors = gathered.errors.data() + static_cast<size_t>(r) * memory.errors.size();
      CopyTensor(file, ErrorName(r, matrix), matrix.size, errors + matrix.error_begin);
    }
    CopyTensor(file, FactorName(matrix), {memory.rank, matrix.size.columns},
               gathered.factors.data() + matrix.factor_begin);
  }
  return gathered;
}

void SpreadMemory(const GatheredMemory& gathered, Communicator& comm, PowerSgdMemory& memory) {
  int32_t writers = gathered.ranks;
  comm.Broadcast(&writers, sizeof(writers), 0);
  if (writers == 0) return;
  const size_t elements = memory.errors.size();
  const auto bytes = static_cast<int64_t>(elements * sizeof(float));
  if (comm.is_root()) memory.factors = gathered.factors;
  comm.Broadcast(memory.factors.data(), static_cast<int64_t>(memory.factors.size() * sizeof(float)),
                 0);
  if (writers == comm.size()) {
    const std::vector<int64_t> from =
        OffsetsOf(comm.size(), [&](int) { return comm.is_root() ? bytes : 0; });
    const std::vector<int64_t> to =
        OffsetsOf(comm.size(), [&](int rank) { return rank == 0 ? bytes : 0; });
    comm.AllToAllV(gathered.errors.data(), from, memory.errors.data(), to);
    return;
  }
  if (comm.is_root()) {
    for (size_t i = 0; i < elements; ++i) {
      double sum = 0.0;
      for (int r = 0; r < writers; ++r) {
        sum += double{gathered.errors[static_cast<size_t>(r) * elements + i]};
      }
      memory.errors[i] = static_cast<float>(sum / comm.size());
    }
  }
  comm.Broadcast(memory.errors.data(), bytes, 0);
}

absl::StatusOr<std::string> RestoreMemory(const std::string& path, Communicator& comm,
                                          PowerSgdMemory& memory) {
  const auto read = [&]() -> absl::StatusOr<GatheredMemory> {
    if (!comm.is_root()) return GatheredMemory();
    DT_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                        Checkpoint::Open(path, {.verify_contents = false}));
    return ReadMemory(checkpoint, memory);
  };
  const absl::StatusOr<GatheredMemory> gathered = read();
  DT_RETURN_IF_ERROR(ShareRootStatus(gathered.status(), "read PowerSGD's memory", comm));
  SpreadMemory(*gathered, comm, memory);
  if (!comm.is_root() || gathered->ranks == comm.size()) return "";
  if (gathered->ranks == 0) return "the checkpoint has no memory of PowerSGD: it starts empty";
  return absl::StrCat("PowerSGD's error memory of ", gathered->ranks, " ranks is shared out over ",
                      comm.size());
}

bool HasMemory(const std::string& path) {
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(path, {.verify_contents = false});
  return checkpoint.ok() && checkpoint->Has(kFile);
}

}  // namespace dtrain::internal
