// safetensors.h - reads and writes named tensors in a format that other frameworks use.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_RETURN_IF_ERROR(WriteSafetensors(path, tensors).status());
//   DT_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
//   const Shape shape = {vocab_size, hidden_size};
//   DT_ASSIGN_OR_RETURN(const NamedTensor* t,
//                       file.Get("lm_head.weight", DType::kFloat32, shape.dims()));
//
// Format: 8 bytes header length (little-endian), a JSON header padded with spaces to a multiple of
// 8, then the tensors in C order, without gaps. https://huggingface.co/docs/safetensors
#ifndef DTRAIN_FORMATS_SAFETENSORS_H_
#define DTRAIN_FORMATS_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/base/status.h"

namespace dtrain {

// A dense tensor in C order, in host memory that somebody else owns.
struct NamedTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
  // For writing only. If set, it is called when this tensor is written and returns the data, which
  // must be valid until the next call. So not all tensors need to be in memory at once.
  std::function<std::span<const std::byte>()> fetch = {};

  // Number of bytes of the data, according to the shape.
  int64_t bytes() const;
};

// The properties of a written file, for manifests.
struct SafetensorsSummary {
  int64_t size = 0;     // of the file, in bytes
  uint32_t crc32c = 0;  // of the file
  std::map<std::string, uint32_t> tensor_crc32c;
};

// Writes all tensors to `path`, through a temporary file: a crash or a full disk leaves an existing
// file unchanged. The file's metadata are `metadata` and {"format": "pt"}, which some readers
// require. Tensors are ordered by element size, larger first, then by name. Names must be unique,
// not empty and not "__metadata__", and sizes must match shapes.
StatusOr<SafetensorsSummary> WriteSafetensors(
    const std::string& path, std::span<const NamedTensor> tensors,
    const std::map<std::string, std::string>& metadata = {});

// A safetensors file mapped into memory. Opening it checks everything except the numbers: the
// header, the types, and that the tensors cover the file without gap or overlap. Otherwise it
// returns StorageError (exit code 7). BOOL is read as uint8.
class SafetensorsFile {
 public:
  static StatusOr<SafetensorsFile> Open(const std::string& path);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  // The tensors in the order of the file. Their data points into the mapping, which lives as long
  // as this object. It is aligned to bytes only, so copy it.
  std::span<const NamedTensor> tensors() const;
  // nullptr if there is no such tensor.
  const NamedTensor* Find(std::string_view name) const;
  // The tensor, or an error that shows the expected and the actual type and shape.
  StatusOr<const NamedTensor*> Get(std::string_view name, DType dtype,
                                   std::span<const int64_t> shape) const;
  const std::map<std::string, std::string>& metadata() const;
  const std::string& path() const;

 private:
  struct Content;
  explicit SafetensorsFile(std::unique_ptr<Content> content);

  std::unique_ptr<Content> content_;
};

// For example "[512, 2048]".
std::string FormatShape(std::span<const int64_t> shape);

}  // namespace dtrain

#endif  // DTRAIN_FORMATS_SAFETENSORS_H_
