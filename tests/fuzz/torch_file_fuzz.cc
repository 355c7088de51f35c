// torch_file_fuzz.cc - whatever the bytes, a PyTorch file is read or refused.
// SPDX-License-Identifier: Apache-2.0
//
// An input that does not begin as a zip file is taken for the pickle within one.
#include <cstdint>
#include <string>

#include "dtrain/base/check.h"
#include "dtrain/base/crc.h"
#include "dtrain/formats/internal/pickle.h"
#include "dtrain/formats/weight_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using dtrain::internal::Pickle;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!text.starts_with("PK")) {
    const auto pickle = Pickle::Parse("x", text);
    DT_CHECK(pickle.ok() || pickle.status().code() == dtrain::ExitCode::kStorage);
    return 0;
  }
  const auto tensors = dtrain::ParseTorchFile("x.bin", std::as_bytes(std::span(text)));
  if (!tensors.ok()) {
    DT_CHECK(tensors.status().code() == dtrain::ExitCode::kStorage);
    return 0;
  }
  // What was accepted can be read to its last byte.
  uint32_t crc = 0;
  for (const dtrain::NamedTensor& tensor : *tensors) crc = dtrain::Crc32c(tensor.data, crc);
  DT_CHECK_GE(crc, 0u);
  return 0;
}
