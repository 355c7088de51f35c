// bus_error.h - reports which mapped file shrank when reading it ends in SIGBUS.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_BUS_ERROR_H_
#define DTRAIN_BASE_BUS_ERROR_H_

#include <cstddef>
#include <string_view>

namespace dtrain {

// Installs the SIGBUS handler. Call it once per process and before MPI starts: MPI keeps a handler
// that is already installed. The handler ends the process with exit code 7 and one line on stderr
// that names the mapped file. It does so if the file became shorter than its mapping, or if the
// disk cannot be read. Broken memory is reported as broken memory. Any other SIGBUS has its default
// effect.
void ReportShrunkFiles();

namespace internal {
// Registers that `path` is mapped at [data, data + size), until ForgetMapping(data). Any thread may
// call these functions. The handler knows at most 64 files at a time; later ones are ignored.
void RememberMapping(const void* data, size_t size, std::string_view path);
void ForgetMapping(const void* data);
}  // namespace internal
}  // namespace dtrain

#endif  // DTRAIN_BASE_BUS_ERROR_H_
