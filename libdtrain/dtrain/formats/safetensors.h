// safetensors.h - named tensors in a file that other frameworks read.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_RETURN_IF_ERROR(WriteSafetensors(path, tensors).status());
//   DT_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
//   const Shape shape = {vocab_size, hidden_size};
//   DT_ASSIGN_OR_RETURN(const NamedTensor* t,
//                       file.Get("lm_head.weight", DType::kFloat32, shape.dims()));
//
// Format: 8 bytes header length (little-endian), a JSON header padded by spaces to a multiple of 8,
// then the tensors in C order, without gaps. https://huggingface.co/docs/safetensors
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

// A tensor in host memory that somebody else owns, dense and in C order.
struct NamedTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
  // To write: where there is one it gives the data, valid until the next call, when the tensor's
  // turn has come; for tensors that are not all here at once.
  std::function<std::span<const std::byte>()> fetch = {};

  // Of the data, as the shape has it.
  int64_t bytes() const;
};

// What a write left on the disk, for manifests.
struct SafetensorsSummary {
  int64_t size = 0;     // bytes of the file
  uint32_t crc32c = 0;  // of the file
  std::map<std::string, uint32_t> tensor_crc32c;
};

// Writes all tensors to `path` by way of a temporary file: a crash or a full disk leaves what was
// there before. The file always holds the metadata {"format": "pt"}, without which some readers
// refuse it, and `metadata`. Order in the file: larger element types first, then by name.
// Checked: names are unique, non-empty and not "__metadata__", sizes match shapes.
StatusOr<SafetensorsSummary> WriteSafetensors(
    const std::string& path, std::span<const NamedTensor> tensors,
    const std::map<std::string, std::string>& metadata = {});

// A safetensors file mapped into memory. Opening checks everything but the numbers themselves:
// header, types, and that the tensors tile the file without gap or overlap; what fails is refused
// with a StorageError (exit code 7). BOOL reads as uint8.
class SafetensorsFile {
 public:
  static StatusOr<SafetensorsFile> Open(const std::string& path);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  // In the order of the file. Data points into the mapping, which lives as long as this object; its
  // alignment is only that of bytes: copy it.
  std::span<const NamedTensor> tensors() const;
  // nullptr if there is none.
  const NamedTensor* Find(std::string_view name) const;
  // The tensor, or an error that says what was expected and what the file holds.
  StatusOr<const NamedTensor*> Get(std::string_view name, DType dtype,
                                   std::span<const int64_t> shape) const;
  const std::map<std::string, std::string>& metadata() const;
  const std::string& path() const;

 private:
  struct Content;
  explicit SafetensorsFile(std::unique_ptr<Content> content);

  std::unique_ptr<Content> content_;
};

// "[512, 2048]".
std::string FormatShape(std::span<const int64_t> shape);

}  // namespace dtrain

#endif  // DTRAIN_FORMATS_SAFETENSORS_H_
