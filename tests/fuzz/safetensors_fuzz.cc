// safetensors_fuzz.cc - whatever the bytes, a safetensors file is read or refused.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/check.h"
#include "dtrain/base/crc.h"
#include "dtrain/formats/safetensors.h"
#include "fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dtrain::FuzzFile bytes(data, size);
  const auto file = dtrain::SafetensorsFile::Open(bytes.path());
  if (!file.ok()) {
    DT_CHECK(file.status().code() == dtrain::ExitCode::kStorage) << file.status().message();
    return 0;
  }
  // What was accepted can be found, and read to its last byte.
  uint32_t crc = 0;
  for (const dtrain::NamedTensor& tensor : file->tensors()) {
    crc = dtrain::Crc32c(tensor.data, crc);
    DT_CHECK(file->Find(tensor.name) == &tensor) << crc;
  }
  return 0;
}
