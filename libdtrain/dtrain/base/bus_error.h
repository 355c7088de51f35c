// bus_error.h - names the mapped file that became shorter while it was read, before SIGBUS ends it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_BUS_ERROR_H_
#define DTRAIN_BASE_BUS_ERROR_H_

#include <cstddef>
#include <string_view>

namespace dtrain {

// Once per process and before MPI starts, which leaves a handler that it finds: from here on a read
// behind the end of a MappedFile's file, or one that its disk fails, ends the process with exit
// code 7 and one line on stderr. Broken memory is said to be that; any other SIGBUS ends it as by
// default.
void ReportShrunkFiles();

namespace internal {
// `path` is mapped at [data, data + size), until ForgetMapping(data). Any thread may call. Of more
// than 64 files at a time the later ones are not known.
void RememberMapping(const void* data, size_t size, std::string_view path);
void ForgetMapping(const void* data);
}  // namespace internal
}  // namespace dtrain

#endif  // DTRAIN_BASE_BUS_ERROR_H_
